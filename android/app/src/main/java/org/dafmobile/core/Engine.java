package org.dafmobile.core;

/** What trains: the native session, or a stand-in in tests. One engine is for one run. */
public interface Engine extends AutoCloseable {
  /** Called on the thread of {@link #run}. */
  interface Host {
    /** Every line of the trace. May not call the engine: the line may be about what it is doing. */
    void onLine(String line);

    /** Asked before every step; may wait, the run is then paused. */
    boolean shouldStop();
  }

  interface Factory {
    Engine open() throws DafException;
  }

  /** Runs a request of the session's to its end; returns the footer's line. `threads` 0: one per core. */
  String run(String requestJson, int threads, Host host) throws DafException;

  /** From any thread: a new budget, in force at once. Returns it, raised to the least possible; -1 when nothing runs. */
  long trim(long budgetBytes);

  /** From any thread: writes an event to the trace before the next step. `fieldsJson` is an object. */
  void note(String event, String fieldsJson);

  @Override
  void close();
}
