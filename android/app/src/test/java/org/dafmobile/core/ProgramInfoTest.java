package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.file.Path;
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
    String id = NewRun.write(folder, program, data, 100, 5_000_000, 2, Folders.VERSION);
    assertEquals("my-digits-1", id);
    RunRequest request = RunRequest.read(folder, "runs/" + id + "/request.json", Folders.VERSION);
    assertEquals(2, request.threads);
    assertEquals(program, request.program);
    assertEquals(5L, Json.parseObject(request.sessionJson()).get("save_every"));
    assertEquals(5_000_000L, Json.parseObject(request.sessionJson()).get("budget_bytes"));
    assertNotEquals(id, NewRun.write(folder, program, data, 1, 0, 0, Folders.VERSION));
  }
}
