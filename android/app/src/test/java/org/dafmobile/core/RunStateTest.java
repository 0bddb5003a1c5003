package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.concurrent.CountDownLatch;
import org.dafmobile.core.RunState.Pause;
import org.dafmobile.core.RunState.Phase;
import org.junit.Test;

public class RunStateTest {
  private final RunState state = new RunState();

  @Test
  public void runsPausesAndEnds() {
    assertEquals(Phase.STARTING, state.phase());
    assertTrue(state.started());
    assertFalse(state.started());
    assertTrue(state.pause(Pause.USER));
    assertEquals(Phase.PAUSED, state.phase());
    assertTrue(state.resume(Pause.USER));
    assertEquals(Phase.RUNNING, state.phase());
    state.finish(Phase.DONE);
    assertEquals(Phase.DONE, state.phase());
  }

  @Test
  public void goesOnWhenTheLastReasonIsGone() {
    state.started();
    state.pause(Pause.HEAT);
    state.pause(Pause.USER);
    assertFalse("already", state.pause(Pause.USER));
    state.resume(Pause.HEAT);
    assertEquals(Phase.PAUSED, state.phase());
    state.resume(Pause.USER);
    assertEquals(Phase.RUNNING, state.phase());
    assertFalse("not held by it", state.resume(Pause.HEAT));
  }

  @Test
  public void mayBePausedBeforeItRuns() {
    state.pause(Pause.HEAT);
    assertEquals(Phase.STARTING, state.phase());
    state.started();
    assertEquals(Phase.PAUSED, state.phase());
  }

  @Test
  public void lateMovesHaveNoEffect() {
    state.started();
    assertTrue(state.stop());
    assertFalse(state.stop());
    assertFalse(state.pause(Pause.USER));
    assertFalse(state.resume(Pause.USER));
    assertEquals(Phase.STOPPING, state.phase());
    state.finish(Phase.STOPPED);
    state.finish(Phase.FAILED);
    assertFalse(state.stop());
    assertFalse(state.started());
    assertEquals(Phase.STOPPED, state.phase());
    assertThrows(IllegalArgumentException.class, () -> state.finish(Phase.RUNNING));
  }

  @Test(timeout = 60_000)
  public void theTrainingThreadWaitsWhilePaused() throws Exception {
    state.started();
    assertFalse(state.waitAndAskWhetherToStop());
    state.pause(Pause.USER);
    CountDownLatch goesOn = new CountDownLatch(1);
    boolean[] stops = new boolean[1];
    Thread thread =
        new Thread(
            () -> {
              stops[0] = state.waitAndAskWhetherToStop();
              goesOn.countDown();
            });
    thread.start();
    while (thread.getState() != Thread.State.WAITING) Thread.yield();
    assertEquals(1, goesOn.getCount());
    state.stop();
    thread.join();
    assertTrue(stops[0]);
  }
}
