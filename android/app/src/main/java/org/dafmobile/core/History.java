package org.dafmobile.core;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** What a trace has said so far: for charts and texts. Filled while a run goes on, or from its file afterwards. */
public final class History {
  /** From the bottom of the chart to its top. */
  public static final String[] PARTS = {"weights", "constants", "optimizer", "arena", "pool", "workspace", "batch"};

  private static final int POINTS = 512;

  public final Series loss = new Series(1, POINTS, false);
  public final Series memory = new Series(PARTS.length, POINTS, true);
  private volatile long step = 0;
  private double lastCounted = 0;
  private volatile double lastLoss = Double.NaN;
  private volatile long peakRssBytes = 0;
  private volatile long heldBytes = 0; // arena, pool and workspace: what a budget is about
  private volatile String reduceFallback; // why the GPU was done without

  /**
   * Lines that are not of a trace are passed over: a kill may have cut the last one. So are steps that a continued run
   * takes again, with the same result, because they came after its checkpoint.
   */
  public void add(String line) {
    Map<String, Object> row;
    try {
      row = Json.parseObject(line);
    } catch (Json.FormatException error) {
      return;
    }
    if ("step".equals(row.get("type"))) {
      long at = (long) number(row, "step");
      if (at <= step) return;
      step = at;
      lastLoss = number(row, "loss");
      if (!Double.isNaN(lastLoss) && !Double.isInfinite(lastLoss)) loss.add(step, lastLoss);
    } else if ("counters".equals(row.get("type"))) {
      double[] parts = new double[PARTS.length];
      for (int i = 0; i < parts.length; ++i) parts[i] = row.containsKey(PARTS[i]) ? number(row, PARTS[i]) : 0;
      double at = number(row, "step");
      if (at > lastCounted) memory.add(lastCounted = at, parts);
      heldBytes = (long) (parts[3] + parts[4] + parts[5]);
      peakRssBytes = Math.max(peakRssBytes, (long) (number(row, "rss") + number(row, "swap")));
    } else if ("reduce_fallback".equals(row.get("event"))) {
      reduceFallback = String.valueOf(row.get("reason"));
    } else if ("footer".equals(row.get("type"))) {
      peakRssBytes = Math.max(peakRssBytes, (long) number(row, "peak_rss_bytes"));
    }
  }

  public void addFile(Path trace) throws IOException {
    try (BufferedReader lines = Files.newBufferedReader(trace, StandardCharsets.UTF_8)) {
      for (String line; (line = lines.readLine()) != null; ) add(line);
    }
  }

  public long step() {
    return step;
  }

  public double lastLoss() {
    return lastLoss;
  }

  public long peakRssBytes() {
    return peakRssBytes;
  }

  public long heldBytes() {
    return heldBytes;
  }

  /** Null when the GPU was not asked for, or did what it was asked. */
  public String reduceFallback() {
    return reduceFallback;
  }

  /** Not a number when it is missing or, as a loss may be, "NaN". */
  private static double number(Map<String, Object> row, String key) {
    Object value = row.get(key);
    return value instanceof Number ? ((Number) value).doubleValue() : Double.NaN;
  }
}
