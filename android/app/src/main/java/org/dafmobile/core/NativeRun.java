package org.dafmobile.core;

import java.nio.charset.StandardCharsets;

/** The native session. Text crosses as UTF-8 bytes: JNI's own strings are of another, "modified" kind. */
public final class NativeRun implements Engine {
  private static volatile boolean loaded = false;
  private long handle;

  private NativeRun(long handle) {
    this.handle = handle;
  }

  public static NativeRun open() throws DafException {
    if (!loaded) {
      try {
        System.loadLibrary("daf_jni");
        loaded = true;
      } catch (UnsatisfiedLinkError error) {
        throw new DafException(
            DafException.DEVICE,
            "cannot start training: this build of the app has no engine for this device (" + error.getMessage()
                + "); install one that was built with the NDK");
      }
    }
    return new NativeRun(nativeOpen());
  }

  public static String version() {
    return new String(nativeVersion(), StandardCharsets.UTF_8);
  }

  @Override
  public String run(String requestJson, int threads, Host host) throws DafException {
    long mine;
    synchronized (this) {
      mine = handle;
    }
    if (mine == 0) throw new IllegalStateException("closed");
    return new String(
        nativeRun(mine, requestJson.getBytes(StandardCharsets.UTF_8), threads, new Callbacks(host)), StandardCharsets.UTF_8);
  }

  @Override
  public synchronized long trim(long budgetBytes) {
    return handle == 0 ? -1 : nativeTrim(handle, budgetBytes);
  }

  @Override
  public synchronized void note(String event, String fieldsJson) {
    if (handle == 0) return;
    nativeNote(handle, event.getBytes(StandardCharsets.UTF_8), fieldsJson.getBytes(StandardCharsets.UTF_8));
  }

  /** Not while {@link #run} is running. */
  @Override
  public synchronized void close() {
    if (handle != 0) nativeClose(handle);
    handle = 0;
  }

  /** What native code calls, by name. */
  private static final class Callbacks {
    private final Host host;

    Callbacks(Host host) {
      this.host = host;
    }

    void onLine(byte[] line) {
      host.onLine(new String(line, StandardCharsets.UTF_8));
    }

    boolean shouldStop() {
      return host.shouldStop();
    }
  }

  /** Called by native code, so that the text crosses as bytes. */
  private static DafException newError(int code, byte[] message) {
    return new DafException(code, new String(message, StandardCharsets.UTF_8));
  }

  private static native byte[] nativeVersion();

  private static native long nativeOpen();

  private static native byte[] nativeRun(long handle, byte[] request, int threads, Callbacks callbacks) throws DafException;

  private static native long nativeTrim(long handle, long budgetBytes);

  private static native void nativeNote(long handle, byte[] event, byte[] fields);

  private static native void nativeClose(long handle);
}
