package org.dafmobile.core;

import java.util.Arrays;

/**
 * Values over steps in bounded memory, however long a run is: when it is full, neighbours are merged, and from then on
 * each point stands for twice as many steps.
 */
public final class Series {
  private final int capacity;
  private final double[] x;
  private final double[][] values;
  private final boolean keepsPeaks;
  private int size = 0;
  private int stride = 1;
  private int inLast = 0; // steps that the last point stands for

  /** `keepsPeaks`: a merged point is the largest of its steps (memory), not their mean (loss). */
  public Series(int nValues, int capacity, boolean keepsPeaks) {
    if (capacity < 2 || capacity % 2 != 0) throw new IllegalArgumentException("capacity " + capacity);
    this.capacity = capacity;
    this.keepsPeaks = keepsPeaks;
    x = new double[capacity];
    values = new double[nValues][capacity];
  }

  public synchronized void add(double step, double... row) {
    if (inLast == stride || size == 0) {
      if (size == capacity) halve();
      for (double[] value : values) value[size] = 0;
      ++size;
      inLast = 0;
    }
    int at = size - 1;
    x[at] = step;
    for (int i = 0; i < values.length; ++i) {
      double old = values[i][at];
      if (inLast == 0) {
        values[i][at] = row[i];
      } else {
        values[i][at] = keepsPeaks ? Math.max(old, row[i]) : old + (row[i] - old) / (inLast + 1);
      }
    }
    ++inLast;
  }

  private void halve() {
    for (int i = 0; i < capacity / 2; ++i) {
      x[i] = x[2 * i + 1];
      for (double[] value : values) {
        double a = value[2 * i], b = value[2 * i + 1];
        value[i] = keepsPeaks ? Math.max(a, b) : (a + b) / 2;
      }
    }
    size = capacity / 2;
    stride *= 2;
    inLast = stride;
  }

  public synchronized double[] x() {
    return Arrays.copyOf(x, size);
  }

  public synchronized double[] values(int i) {
    return Arrays.copyOf(values[i], size);
  }
}
