package org.dafmobile.core;

import java.util.Locale;

/** Numbers as people read them; the same in every language, as the host tool prints them. */
public final class Text {
  private Text() {}

  public static String bytes(long n) {
    if (n < 1000) return n + " B";
    String[] units = {"kB", "MB", "GB", "TB"};
    double value = n;
    int unit = -1;
    do {
      value /= 1000;
      ++unit;
    } while (value >= 999.95 && unit + 1 < units.length);
    return String.format(Locale.ROOT, unit == 2 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  }

  public static String loss(double loss) {
    if (Double.isNaN(loss) || Double.isInfinite(loss)) return "not finite";
    return String.format(Locale.ROOT, Math.abs(loss) >= 1e-3 || loss == 0 ? "%.4f" : "%.2e", loss);
  }
}
