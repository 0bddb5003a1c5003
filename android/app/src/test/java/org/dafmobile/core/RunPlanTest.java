package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Checkpoints, and what remains of a run after one. */
public class RunPlanTest {
  @Rule public TemporaryFolder temporary = new TemporaryFolder();
  private AppFolder folder;
  private RunRequest request;

  @Before
  public void makeRun() throws Exception {
    folder = Folders.make(temporary.getRoot());
    request = RunRequest.parse(folder, "r1", Json.write(Folders.outer(Folders.inner())), Folders.VERSION);
  }

  @Test
  public void continuesAfterTheCheckpoint() throws Exception {
    Folders.writeCheckpoint(request.save, 8, "w.optim-8.safetensors");
    Folders.write(request.save.resolveSibling("w.optim-8.safetensors"), "x");
    Folders.write(request.trace, "{}");
    RunPlan plan = RunPlan.continued(request);
    Map<String, Object> session = Json.parseObject(plan.sessionJson);
    assertEquals(12L, session.get("steps"));
    assertEquals(20L, session.get("total_steps"));
    assertEquals(request.save.toString(), session.get("resume"));
    assertEquals(request.save.toString(), session.get("save"));
    assertEquals(folder.root().resolve("runs/r1/run-2.trace").toString(), session.get("trace"));
    assertEquals(8, plan.firstStep);

    Folders.write(plan.trace, "{}");
    assertEquals("run-3.trace", RunPlan.continued(request).trace.getFileName().toString());
  }

  @Test
  public void beginsAgainWithoutACompleteCheckpoint() throws Exception {
    assertEquals(request.sessionJson(), RunPlan.continued(request).sessionJson);
    Folders.writeCheckpoint(request.save, 8, "w.optim-8.safetensors"); // which is not there
    assertEquals(request.sessionJson(), RunPlan.continued(request).sessionJson);
  }

  @Test
  public void nothingRemains() throws Exception {
    Folders.writeCheckpoint(request.save, 20, null);
    assertNull(RunPlan.continued(request));
  }

  @Test
  public void filesThatAreNoCheckpoints() throws Exception {
    Path path = request.save;
    Folders.writeCheckpoint(path, 8, null);
    byte[] whole = Files.readAllBytes(path);
    assertEquals(8, Checkpoint.find(path).step);
    for (int size = 0; size < whole.length; ++size) {
      Files.write(path, java.util.Arrays.copyOf(whole, size));
      assertNull("" + size, Checkpoint.find(path));
    }
    byte[] huge = whole.clone();
    huge[7] = 127; // a header of exabytes
    Files.write(path, huge);
    assertNull(Checkpoint.find(path));
    Folders.write(path, new String(whole, "ISO-8859-1").replace("daf-checkpoint", "pt-checkpoint"));
    assertNull(Checkpoint.find(path));
    assertNull(Checkpoint.find(null));
  }

  @Test
  public void pendingRunsAreKeptOnStorage() throws Exception {
    PendingRun pending = new PendingRun(folder);
    assertNull(pending.get());
    pending.set("r1");
    assertEquals("r1", new PendingRun(folder).get());
    Folders.write(folder.root().resolve("pending.json"), "{\"format\":\"daf-pen");
    assertNull(pending.get());
    pending.clear();
    pending.clear();
  }
}
