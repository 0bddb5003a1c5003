package org.dafmobile.core;

/** How far the budget shrinks when the system asks for memory. Levels are those of ComponentCallbacks2. */
public final class TrimPolicy {
  static final int RUNNING_MODERATE = 5, RUNNING_LOW = 10, RUNNING_CRITICAL = 15, UI_HIDDEN = 20, BACKGROUND = 40, MODERATE = 60;

  private TrimPolicy() {}

  /** `heldBytes`: arena, pool and workspace now. The session raises what is below its floor. -1: leave it as it is. */
  public static long budgetBytes(int level, long heldBytes) {
    if (heldBytes <= 0) return -1;
    if (level >= MODERATE || level == RUNNING_CRITICAL) return 0; // the floor
    if (level >= BACKGROUND || level == RUNNING_LOW) return heldBytes / 4 * 3;
    if (level == RUNNING_MODERATE) return heldBytes / 10 * 9;
    return -1; // UI_HIDDEN asks for what the screen takes, which is none of the session's
  }
}
