package org.dafmobile.core;

import java.util.ArrayList;
import java.util.List;

/** Where lines, bands and ticks of a chart lie on a canvas. The y axis points down there. */
public final class ChartGeometry {
  public static final class Tick {
    public final double value;
    public final float at;

    Tick(double value, float at) {
      this.value = value;
      this.at = at;
    }
  }

  private final float left, top, right, bottom;
  private final double minX, maxX, minY, maxY;

  /** The rectangle of the plot, and the values at its edges. Values that are all the same get some room. */
  public ChartGeometry(float left, float top, float right, float bottom, double minX, double maxX, double minY, double maxY) {
    this.left = left;
    this.top = top;
    this.right = Math.max(right, left + 1);
    this.bottom = Math.max(bottom, top + 1);
    this.minX = minX;
    this.maxX = maxX > minX ? maxX : minX + 1;
    this.minY = minY;
    this.maxY = maxY > minY ? maxY : minY + Math.max(1e-9, Math.abs(minY));
  }

  public float x(double value) {
    return (float) (left + (value - minX) / (maxX - minX) * (right - left));
  }

  public float y(double value) {
    return (float) (bottom - (value - minY) / (maxY - minY) * (bottom - top));
  }

  /** x0, y0, x1, y1, ... */
  public float[] line(double[] x, double[] y) {
    float[] points = new float[2 * x.length];
    for (int i = 0; i < x.length; ++i) {
      points[2 * i] = x(x[i]);
      points[2 * i + 1] = y(y[i]);
    }
    return points;
  }

  /** For values that add up: a closed outline each, the first at the bottom. */
  public List<float[]> bands(double[] x, double[][] values) {
    List<float[]> outlines = new ArrayList<>();
    double[] below = new double[x.length];
    for (double[] value : values) {
      double[] above = new double[x.length];
      for (int i = 0; i < x.length; ++i) above[i] = below[i] + value[i];
      float[] outline = new float[4 * x.length];
      for (int i = 0; i < x.length; ++i) {
        outline[2 * i] = x(x[i]);
        outline[2 * i + 1] = y(above[i]);
        int back = outline.length - 2 * (i + 1);
        outline[back] = x(x[i]);
        outline[back + 1] = y(below[i]);
      }
      outlines.add(outline);
      below = above;
    }
    return outlines;
  }

  public List<Tick> yTicks(int atMost) {
    List<Tick> ticks = new ArrayList<>();
    double step = niceStep((maxY - minY) / Math.max(1, atMost));
    for (long k = (long) Math.ceil(minY / step); k * step <= maxY + 1e-9 * step; ++k) {
      ticks.add(new Tick(k * step, y(k * step)));
    }
    return ticks;
  }

  public List<Tick> xTicks(int atMost) {
    List<Tick> ticks = new ArrayList<>();
    double step = Math.max(1, niceStep((maxX - minX) / Math.max(1, atMost)));
    for (long k = (long) Math.ceil(minX / step); k * step <= maxX + 1e-9 * step; ++k) {
      ticks.add(new Tick(k * step, x(k * step)));
    }
    return ticks;
  }

  /** 1, 2 or 5 times a power of ten, and not less than `least`. */
  static double niceStep(double least) {
    if (!(least > 0) || Double.isInfinite(least)) return 1;
    double power = Math.pow(10, Math.floor(Math.log10(least)));
    for (double factor : new double[] {1, 2, 5, 10}) {
      if (factor * power >= least * (1 - 1e-12)) return factor * power;
    }
    return 10 * power;
  }
}
