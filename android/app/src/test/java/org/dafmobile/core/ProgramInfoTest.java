package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Programs in the folder, and runs that the app itself starts with them. */
public class ProgramInfoTest {
  private static final String MANIFEST =
      "{\"format\":\"daf-manifest\",\"schema\":1,\"daf_version\":\"0.1.0\",\"model\":{\"name\":\"cnn_digits\"},\"batch_size\":32,"
          + "\"optimizer\":{\"name\":\"sgd\"},\"activations\":{\"mode\":\"daf\"},\"memory\":{\"arena\":5,\"peak\":7}}";

  @Rule public TemporaryFolder temporary = new TemporaryFolder();
  private AppFolder folder;
  private Path program;

  @Before
  public void makeProgram() throws Exception {
    folder = new AppFolder(temporary.getRoot());
    program = folder.programs().resolve("my digits.pte");
    Folders.write(program, "x");
    Folders.write(ProgramInfo.manifestOf(program), MANIFEST);
    Folders.write(ProgramInfo.exampleOf(program), "x");
  }

  @Test
  public void showsTheManifest() throws Exception {
    assertEquals(program, ProgramInfo.list(folder.programs()).get(0));
    assertEquals(1, ProgramInfo.listData(folder.programs()).size());
    ProgramInfo info = ProgramInfo.read(program);
    assertEquals("cnn_digits", info.model);
    assertEquals(32, info.batchSize);
    assertEquals("daf", info.activations);
    assertEquals(Long.valueOf(7), info.predictedBytes.get("peak"));
  }

  @Test
  public void manifestsThatCannotBeUsed() throws Exception {
    for (String text : new String[] {"", "{}", "[]", MANIFEST.replace("\"schema\":1", "\"schema\":2"), MANIFEST.replace("32", "\"x\"")}) {
      Folders.write(ProgramInfo.manifestOf(program), text);
      assertEquals(DafException.PROGRAM, assertThrows(text, DafException.class, () -> ProgramInfo.read(program)).code());
    }
    DafException error = assertThrows(DafException.class, () -> ProgramInfo.read(folder.programs().resolve("none.pte")));
    assertTrue(error.getMessage(), error.getMessage().contains("its manifest none.daf.json is not beside it"));
    assertTrue(ProgramInfo.list(folder.root().resolve("none")).isEmpty());
  }

  @Test
  public void newRunsAreRequestsLikeThoseOfAHost() throws Exception {
    Path data = ProgramInfo.exampleOf(program);
    NewRun run = new NewRun(program, data, 100);
    run.budgetBytes = 5_000_000;
    run.threads = 2;
    run.reduceMode = ReduceMode.VULKAN;
    String id = run.write(folder, Folders.VERSION);
    assertEquals("my-digits-1", id);
    RunRequest request = RunRequest.read(folder, "runs/" + id + "/request.json", Folders.VERSION);
    assertEquals(2, request.threads);
    assertEquals(program, request.program);
    Map<String, Object> session = Json.parseObject(request.sessionJson());
    assertEquals(5L, session.get("save_every"));
    assertEquals(5_000_000L, session.get("budget_bytes"));
    assertEquals("vulkan", session.get("reduce"));
    assertEquals("vulkan", ((Map<?, ?>) session.get("config")).get("reduce"));
  }

  @Test
  public void newRunsLeaveToTheProgramWhatIsNotSet() throws Exception {
    NewRun run = new NewRun(program, ProgramInfo.exampleOf(program), 1);
    String id = run.write(folder, Folders.VERSION);
    RunRequest request = RunRequest.read(folder, "runs/" + id + "/request.json", Folders.VERSION);
    assertEquals(0, request.threads);
    assertEquals("auto", Json.parseObject(request.sessionJson()).get("reduce"));
    assertFalse(Json.parseObject(request.sessionJson()).containsKey("budget_bytes"));
    assertNotEquals(id, run.write(folder, Folders.VERSION));
  }

  /** What was chosen goes on to be chosen when the run is continued. */
  @Test
  public void everyChoiceReachesTheSession() throws Exception {
    for (ReduceMode mode : ReduceMode.values()) {
      NewRun run = new NewRun(program, ProgramInfo.exampleOf(program), 10);
      run.reduceMode = mode;
      RunRequest request = RunRequest.read(folder, "runs/" + run.write(folder, Folders.VERSION) + "/request.json", Folders.VERSION);
      String continued = request.sessionJson(request.save, 5, request.trace);
      assertEquals(mode.inRequest(), Json.parseObject(request.sessionJson()).get("reduce"));
      assertEquals(mode.inRequest(), Json.parseObject(continued).get("reduce"));
    }
  }
}
