package org.dafmobile.core;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class SeriesTest {
  @Test
  public void isExactWhileThereIsRoom() {
    Series series = new Series(2, 4, false);
    for (int i = 1; i <= 4; ++i) series.add(i, i * 10, -i);
    assertArrayEquals(new double[] {1, 2, 3, 4}, series.x(), 0);
    assertArrayEquals(new double[] {10, 20, 30, 40}, series.values(0), 0);
    assertArrayEquals(new double[] {-1, -2, -3, -4}, series.values(1), 0);
  }

  @Test
  public void mergesNeighboursWhenFull() {
    Series mean = new Series(1, 4, false), peak = new Series(1, 4, true);
    for (int i = 1; i <= 6; ++i) {
      mean.add(i, i);
      peak.add(i, -i);
    }
    assertArrayEquals(new double[] {2, 4, 6}, mean.x(), 0);
    assertArrayEquals(new double[] {1.5, 3.5, 5.5}, mean.values(0), 0);
    assertArrayEquals(new double[] {-1, -3, -5}, peak.values(0), 0);
  }

  @Test
  public void aLongRunFitsAndLosesNoPeak() {
    Series series = new Series(1, 512, true);
    for (int i = 1; i <= 1_000_000; ++i) series.add(i, i == 654_321 ? 9 : 1);
    double[] x = series.x();
    assertTrue(x.length > 255 && x.length <= 512);
    assertEquals(1_000_000, x[x.length - 1], 0);
    double highest = 0;
    for (double value : series.values(0)) highest = Math.max(highest, value);
    assertEquals(9, highest, 0);
  }
}
