package org.dafmobile.core;

/**
 * What the service can be told, by an intent's action and extras:
 *
 * <pre>
 *   RUN        request=runs/ID/request.json   from a host, through the shell
 *   STOP       run=ID, or whichever runs
 *   PAUSE, RESUME
 *   START      run=ID battery_saver=true      from the app's own screens
 *   CONTINUE                                  after the death of the process
 * </pre>
 */
public final class Commands {
  private static final String PREFIX = "org.dafmobile.app.";
  public static final String RUN = PREFIX + "RUN";
  public static final String STOP = PREFIX + "STOP";
  public static final String PAUSE = PREFIX + "PAUSE";
  public static final String RESUME = PREFIX + "RESUME";
  public static final String START = PREFIX + "START";
  public static final String CONTINUE = PREFIX + "CONTINUE";
  public static final String EXTRA_REQUEST = "request";
  public static final String EXTRA_RUN = "run";
  public static final String EXTRA_BATTERY_SAVER = "battery_saver";

  /** Of an intent: null when it is not there. */
  public interface Extras {
    String get(String name);
  }

  private Commands() {}

  public static void obey(RunController controller, String action, Extras extras) throws DafException {
    switch (String.valueOf(action)) {
      case RUN:
        controller.startForHost(String.valueOf(extras.get(EXTRA_REQUEST)));
        break;
      case STOP:
        controller.stop(extras.get(EXTRA_RUN));
        break;
      case PAUSE:
        controller.pause();
        break;
      case RESUME:
        controller.resume();
        break;
      case START:
        controller.startForUser(String.valueOf(extras.get(EXTRA_RUN)), "true".equals(extras.get(EXTRA_BATTERY_SAVER)));
        break;
      case CONTINUE:
        controller.continuePending();
        break;
      default:
        throw new DafException(
            DafException.USAGE, "cannot obey '" + AppFolder.shown(String.valueOf(action)) + "': no such command; use the same version of daf on both sides");
    }
  }
}
