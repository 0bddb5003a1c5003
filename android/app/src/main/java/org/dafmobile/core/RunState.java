package org.dafmobile.core;

import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;

/**
 * Where a run is, and who may move it where:
 *
 * <pre>
 *   STARTING -> RUNNING <-> PAUSED        several reasons may hold it; it goes on when the last is gone
 *   STARTING, RUNNING, PAUSED -> STOPPING
 *   any of these -> DONE, STOPPED, FAILED
 * </pre>
 *
 * Moves that are not there have no effect: a button may be pressed late. Safe for use by several threads.
 */
public final class RunState {
  public enum Phase {
    STARTING,
    RUNNING,
    PAUSED,
    STOPPING,
    DONE,
    STOPPED,
    FAILED;

    public boolean isOver() {
      return this == DONE || this == STOPPED || this == FAILED;
    }
  }

  public enum Pause {
    USER,
    HEAT,
    BATTERY_SAVER
  }

  private Phase phase = Phase.STARTING;
  private final EnumSet<Pause> pauses = EnumSet.noneOf(Pause.class);

  public synchronized Phase phase() {
    return phase;
  }

  public synchronized Set<Pause> pauses() {
    return Collections.unmodifiableSet(EnumSet.copyOf(pauses));
  }

  public synchronized boolean started() {
    return move(Phase.STARTING, pauses.isEmpty() ? Phase.RUNNING : Phase.PAUSED);
  }

  /** True when this changes whether, or why, it is paused. */
  public synchronized boolean pause(Pause reason) {
    if (phase == Phase.STOPPING || phase.isOver() || !pauses.add(reason)) return false;
    move(Phase.RUNNING, Phase.PAUSED);
    return true;
  }

  public synchronized boolean resume(Pause reason) {
    if (phase == Phase.STOPPING || phase.isOver() || !pauses.remove(reason)) return false;
    if (pauses.isEmpty()) move(Phase.PAUSED, Phase.RUNNING);
    notifyAll();
    return true;
  }

  public synchronized boolean stop() {
    if (phase == Phase.STOPPING || phase.isOver()) return false;
    phase = Phase.STOPPING;
    pauses.clear();
    notifyAll();
    return true;
  }

  public synchronized void finish(Phase end) {
    if (!end.isOver()) throw new IllegalArgumentException(end + " is not an end");
    if (phase.isOver()) return;
    phase = end;
    pauses.clear();
    notifyAll();
  }

  /** For the thread that trains, before every step: waits while the run is paused. */
  public synchronized boolean waitAndAskWhetherToStop() {
    while (phase == Phase.PAUSED) {
      try {
        wait();
      } catch (InterruptedException error) { // the process is about to end
        Thread.currentThread().interrupt();
        return true;
      }
    }
    return phase == Phase.STOPPING;
  }

  private boolean move(Phase from, Phase to) {
    if (phase != from) return false;
    phase = to;
    notifyAll();
    return true;
  }
}
