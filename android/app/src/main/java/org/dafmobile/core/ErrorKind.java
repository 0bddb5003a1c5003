package org.dafmobile.core;

/** What an error is about: the app has a heading for each. The text below it is the message, as the host prints it. */
public enum ErrorKind {
  REQUEST,
  PROGRAM,
  DATA,
  WEIGHTS,
  STORAGE,
  MEMORY,
  DEVICE;

  public static ErrorKind of(int code) {
    switch (code) {
      case DafException.USAGE:
        return REQUEST;
      case DafException.PROGRAM:
        return PROGRAM;
      case DafException.DATA:
        return DATA;
      case DafException.WEIGHTS:
        return WEIGHTS;
      case DafException.OUTPUT:
        return STORAGE;
      default:
        return DEVICE;
    }
  }

  public static ErrorKind of(Throwable error) {
    if (error instanceof OutOfMemoryError) return MEMORY;
    return error instanceof DafException ? of(((DafException) error).code()) : DEVICE;
  }

  /** Whatever was thrown, as the exception that users see. */
  public static DafException toDaf(Throwable error) {
    if (error instanceof DafException) return (DafException) error;
    if (error instanceof OutOfMemoryError) {
      return new DafException(DafException.DEVICE, "the device is out of memory; use a smaller model or batch");
    }
    return new DafException(DafException.DEVICE, "training failed unexpectedly: " + error);
  }
}
