package org.dafmobile.core;

/** What a user is told: the action, the object and the next step. The code is that of the host's commands. */
public final class DafException extends Exception {
  private static final long serialVersionUID = 1;

  public static final int USAGE = 2;
  public static final int PROGRAM = 5;
  public static final int DATA = 6;
  public static final int WEIGHTS = 7;
  public static final int OUTPUT = 8;
  public static final int DEVICE = 9;

  private final int code;

  public DafException(int code, String message) {
    super(message);
    this.code = code;
  }

  public int code() {
    return code;
  }
}
