package org.dafmobile.core;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.List;
import org.junit.Test;

public class ChartGeometryTest {
  private static final float EPS = 1e-4f;
  private final ChartGeometry chart = new ChartGeometry(10, 20, 110, 220, 0, 10, 0, 100);

  @Test
  public void cornersAndMiddle() {
    assertArrayEquals(new float[] {10, 220, 110, 20, 60, 120}, chart.line(new double[] {0, 10, 5}, new double[] {0, 100, 50}), EPS);
  }

  @Test
  public void bandsLieOnEachOther() {
    List<float[]> bands = chart.bands(new double[] {0, 10}, new double[][] {{10, 20}, {30, 40}});
    assertArrayEquals(new float[] {10, 200, 110, 180, 110, 220, 10, 220}, bands.get(0), EPS);
    assertArrayEquals(new float[] {10, 140, 110, 100, 110, 180, 10, 200}, bands.get(1), EPS);
    assertTrue(chart.bands(new double[0], new double[2][0]).get(0).length == 0);
  }

  @Test
  public void ticksAreRoundNumbersInside() {
    List<ChartGeometry.Tick> ticks = chart.yTicks(5);
    assertEquals(6, ticks.size());
    assertEquals(20, ticks.get(1).value, 0);
    assertEquals(180, ticks.get(1).at, EPS);
    for (double[] range : new double[][] {{0, 1e-9}, {0, 7}, {-3, 4e12}, {2.29, 2.31}, {5, 5}, {0, 0}}) {
      ChartGeometry any = new ChartGeometry(0, 0, 100, 100, 0, 1, range[0], range[1]);
      assertFalse(any.yTicks(4).isEmpty());
      assertTrue(any.yTicks(4).size() <= 6);
      for (ChartGeometry.Tick tick : any.yTicks(4)) assertTrue(tick.at >= -EPS && tick.at <= 100 + EPS);
    }
  }

  @Test
  public void stepsAreWhole() {
    for (ChartGeometry.Tick tick : new ChartGeometry(0, 0, 100, 100, 1, 3, 0, 1).xTicks(8)) {
      assertEquals(Math.rint(tick.value), tick.value, 0);
    }
  }

  @Test
  public void niceSteps() {
    double[][] expected = {{1, 1}, {1.1, 2}, {2.1, 5}, {5.1, 10}, {0.003, 0.005}, {700, 1000}, {0, 1}, {-1, 1}, {Double.NaN, 1}, {1 / 0.0, 1}};
    for (double[] pair : expected) assertEquals(pair[1], ChartGeometry.niceStep(pair[0]), 1e-12 * pair[1]);
  }

  @Test
  public void aPlotWithoutRoom() {
    ChartGeometry none = new ChartGeometry(50, 50, 10, 10, 0, 0, 0, 0);
    for (float value : none.line(new double[] {0, 1}, new double[] {0, 1})) assertFalse(Float.isNaN(value));
  }
}
