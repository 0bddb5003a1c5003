package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.dafmobile.core.RunState.Pause;
import org.dafmobile.core.RunState.Phase;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class RunControllerTest {
  @Rule public TemporaryFolder temporary = new TemporaryFolder();
  private final FakeEngine engine = new FakeEngine();
  private Conditions conditions = new Conditions(Conditions.NONE, false);
  private AppFolder folder;
  private RunController controller;

  @Before
  public void makeController() throws Exception {
    folder = Folders.make(temporary.getRoot());
    writeRequest(Folders.inner());
    controller = newController();
  }

  private RunController newController() {
    return new RunController(folder, Folders.VERSION, 42, () -> engine, () -> conditions, run -> {});
  }

  private void writeRequest(Map<String, Object> inner) throws Exception {
    Folders.write(folder.root().resolve("runs/r1/request.json"), Json.write(Folders.outer(inner)));
  }

  private Map<String, Object> status() throws Exception {
    return Json.parseObject(AppFolder.readText(folder.root().resolve("runs/r1/status.json"), 1 << 20));
  }

  private void startPaused() throws Exception {
    Map<String, Object> inner = Folders.inner();
    inner.put("steps", 1_000_000_000L);
    writeRequest(inner);
    controller.startForHost("runs/r1/request.json");
    controller.pause();
    while (!Files.exists(folder.root().resolve("runs/r1/status.json")) || !"paused".equals(status().get("state"))) Thread.yield();
  }

  @Test(timeout = 60_000)
  public void runsToTheEnd() throws Exception {
    controller.startForHost("runs/r1/request.json");
    controller.join();
    assertEquals(Phase.DONE, controller.current().state().phase());
    Map<String, Object> status = status();
    assertEquals("done", status.get("state"));
    assertEquals(0L, status.get("code"));
    assertEquals(20L, status.get("step"));
    assertEquals(42L, status.get("pid"));
    assertEquals(20, controller.current().history().loss.x().length);
    assertTrue(engine.closed);
  }

  @Test(timeout = 60_000)
  public void oneRunAtATime() throws Exception {
    startPaused();
    DafException error = assertThrows(DafException.class, () -> controller.startForHost("runs/r1/request.json"));
    assertTrue(error.getMessage(), error.getMessage().contains("r1 is running; stop it first"));
    assertEquals("the status of the run that goes on stays", "paused", status().get("state"));
    controller.stop("another");
    assertEquals(Phase.PAUSED, controller.current().state().phase());
    controller.stop("r1");
    controller.join();
    assertEquals("stopped", status().get("state"));
    assertFalse(controller.isActive());
  }

  @Test(timeout = 60_000)
  public void failuresAreInTheStatus() throws Exception {
    engine.failure = new DafException(DafException.DATA, "cannot use data d: it is empty; give more");
    controller.startForHost("runs/r1/request.json");
    controller.join();
    assertEquals("failed", status().get("state"));
    assertEquals((long) DafException.DATA, status().get("code"));
    assertEquals("cannot use data d: it is empty; give more", status().get("error"));
    assertTrue(engine.closed);
  }

  @Test
  public void refusalsAreInTheStatus() throws Exception {
    Map<String, Object> inner = Folders.inner();
    inner.put("program", "../../etc/passwd");
    writeRequest(inner);
    assertThrows(DafException.class, () -> controller.startForHost("runs/r1/request.json"));
    assertEquals("failed", status().get("state"));
    assertEquals((long) DafException.USAGE, status().get("code"));
    assertNull("no engine was started", controller.current());
  }

  @Test
  public void refusalsWriteNowhereElse() throws Exception {
    Path outside = Files.createDirectory(temporary.getRoot().toPath().resolve("outside"));
    Files.createSymbolicLink(folder.root().resolve("runs/r2"), outside);
    for (String name : new String[] {"runs/r2/request.json", "runs/../request.json", "runs/none/request.json", "", "x/y/z"}) {
      assertThrows(DafException.class, () -> controller.startForHost(name));
    }
    assertEquals(0, outside.toFile().list().length);
    assertFalse(Files.exists(folder.root().resolve("runs/none")));
  }

  @Test(timeout = 60_000)
  public void heatHoldsTheRunUntilItIsWellOver() throws Exception {
    startPaused();
    TrainingRun run = controller.current();
    conditions = new Conditions(Conditions.SEVERE, false);
    controller.tick();
    controller.resume();
    assertEquals(Phase.PAUSED, run.state().phase());
    assertEquals(Arrays.<Object>asList("heat"), status().get("pauses"));
    assertEquals("severe", status().get("thermal"));
    conditions = new Conditions(Conditions.MODERATE, false);
    controller.tick();
    assertEquals(Phase.PAUSED, run.state().phase());
    conditions = new Conditions(Conditions.LIGHT, false);
    controller.tick();
    assertEquals(Phase.RUNNING, run.state().phase());
    controller.stop(null);
    controller.join();
    for (String note :
        new String[] {
          "paused{\"reason\":\"user\"}", "thermal{\"status\":\"severe\"}", "paused{\"reason\":\"heat\"}", "thermal{\"status\":\"light\"}",
          "resumed{\"reason\":\"heat\"}"
        }) {
      assertTrue(note + " in " + engine.notes, engine.notes.contains(note));
    }
  }

  @Test(timeout = 60_000)
  public void batterySaverHoldsOnlyWhereItIsWanted() throws Exception {
    startPaused();
    conditions = new Conditions(Conditions.NONE, true);
    controller.tick();
    assertFalse(controller.current().state().pauses().contains(Pause.BATTERY_SAVER));
    assertTrue(engine.notes.contains("battery_saver{\"on\":true}"));
    controller.current().setPausesInBatterySaver(true);
    controller.tick();
    assertTrue(controller.current().state().pauses().contains(Pause.BATTERY_SAVER));
    assertEquals(true, status().get("battery_saver"));
    controller.stop(null);
    controller.join();
  }

  @Test(timeout = 60_000)
  public void theStatusShowsThatTheAppLives() throws Exception {
    startPaused();
    controller.tick();
    long beat = (Long) status().get("beat");
    controller.tick();
    assertEquals(beat + 1, status().get("beat"));
    controller.stop(null);
    controller.join();
  }

  @Test(timeout = 60_000)
  public void trimsByWhatIsHeld() throws Exception {
    startPaused();
    controller.resume();
    while (controller.current().history().heldBytes() == 0) Thread.yield();
    controller.trim(TrimPolicy.UI_HIDDEN);
    controller.trim(TrimPolicy.BACKGROUND);
    controller.trim(TrimPolicy.RUNNING_CRITICAL);
    assertEquals(Arrays.asList(900L, 0L), engine.budgets);
    controller.stop(null);
    controller.join();
    controller.trim(TrimPolicy.RUNNING_CRITICAL);
    assertEquals("a run that is over holds nothing", 2, engine.budgets.size());
  }

  @Test(timeout = 60_000)
  public void continuesAfterTheDeathOfTheProcess() throws Exception {
    assertFalse(controller.continuePending());
    new PendingRun(folder).set("r1");
    Folders.writeCheckpoint(folder.root().resolve("runs/r1/save/w.safetensors"), 8, null);
    StringBuilder trace = new StringBuilder("{\"type\":\"header\"}\n");
    for (int step = 1; step <= 10; ++step) {
      trace.append("{\"type\":\"step\",\"step\":").append(step).append(",\"loss\":1}\n");
    }
    Folders.write(folder.root().resolve("runs/r1/run.trace"), trace + "{\"type\":\"st"); // cut off by the kill
    assertTrue(controller.continuePending());
    controller.join();
    assertEquals(12L, Json.parseObject(engine.request).get("steps"));
    assertEquals(20, controller.current().history().loss.x().length);
    assertFalse("nothing is left to continue", newController().continuePending());
  }

  @Test(timeout = 60_000)
  public void hostsContinueTheirRunsThemselves() throws Exception {
    startPaused();
    assertNull(new PendingRun(folder).get());
    controller.stop(null);
    controller.join();
    writeRequest(Folders.inner());
    controller.startForUser("r1", false);
    controller.join();
    assertNull("ended", new PendingRun(folder).get());
  }

  @Test
  public void aPendingRunThatCannotBeContinuedIsForgotten() throws Exception {
    new PendingRun(folder).set("gone");
    assertThrows(DafException.class, () -> controller.continuePending());
    assertFalse(controller.continuePending());
  }

  @Test
  public void withoutAnEngine() {
    RunController without =
        new RunController(
            folder,
            Folders.VERSION,
            42,
            () -> {
              throw new DafException(DafException.DEVICE, "cannot start training: no engine; install one");
            },
            () -> conditions,
            run -> {});
    assertThrows(DafException.class, () -> without.startForHost("runs/r1/request.json"));
    assertFalse(without.isActive());
  }
}
