package org.dafmobile.core;

/** How the device is: what the system says about heat and about saving energy. */
public final class Conditions {
  /** Of Android's PowerManager; {@link #UNKNOWN} before Android 10. */
  public static final int UNKNOWN = -1, NONE = 0, LIGHT = 1, MODERATE = 2, SEVERE = 3;

  private static final String[] NAMES = {"none", "light", "moderate", "severe", "critical", "emergency", "shutdown"};

  public interface Source {
    Conditions read();
  }

  public final int thermalStatus;
  public final boolean batterySaver;

  public Conditions(int thermalStatus, boolean batterySaver) {
    this.thermalStatus = thermalStatus;
    this.batterySaver = batterySaver;
  }

  public String thermalName() {
    return thermalStatus >= 0 && thermalStatus < NAMES.length ? NAMES[thermalStatus] : "unknown";
  }

  /**
   * Whether heat should hold a run. From severe throttling on the system slows everything down anyway; it goes on only
   * when that is well over, so that it does not flip at the border.
   */
  public boolean isTooHot(boolean isHeldNow) {
    return thermalStatus >= (isHeldNow ? MODERATE : SEVERE);
  }
}
