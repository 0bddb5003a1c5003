package org.dafmobile.core;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;

import org.junit.Test;

public class HistoryTest {
  private final History history = new History();

  @Test
  public void tellsWhyTheGpuWasDoneWithout() {
    history.add("{\"type\":\"event\",\"event\":\"reduce\",\"mode\":\"vulkan\",\"uses_gpu\":false}");
    assertNull(history.reduceFallback());
    history.add("{\"type\":\"event\",\"event\":\"reduce_fallback\",\"mode\":\"vulkan\",\"reason\":\"cannot use Vulkan: no loader\"}");
    assertEquals("cannot use Vulkan: no loader", history.reduceFallback());
  }

  @Test
  public void passesOverStepsTakenAgainAndLinesCutOff() {
    for (int step : new int[] {1, 2, 3, 2, 3, 4}) history.add("{\"type\":\"step\",\"step\":" + step + ",\"loss\":" + step + "}");
    history.add("{\"type\":\"step\",\"step\":5,\"lo");
    assertEquals(4, history.step());
    assertArrayEquals(new double[] {1, 2, 3, 4}, history.loss.x(), 0);
  }

  @Test
  public void aLossThatIsNoNumberIsToldAndNotDrawn() {
    history.add("{\"type\":\"step\",\"step\":1,\"loss\":\"NaN\"}");
    assertEquals(1, history.step());
    assertEquals(Double.NaN, history.lastLoss(), 0);
    assertEquals(0, history.loss.x().length);
  }
}
