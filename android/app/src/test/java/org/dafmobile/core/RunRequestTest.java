package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class RunRequestTest {
  @Rule public TemporaryFolder temporary = new TemporaryFolder();
  private AppFolder folder;

  @Before
  public void makeFolder() throws Exception {
    folder = Folders.make(temporary.getRoot());
  }

  private RunRequest parse(Map<String, Object> outer) throws DafException {
    return RunRequest.parse(folder, "r1", Json.write(outer), Folders.VERSION);
  }

  private DafException refused(String key, Object value) {
    Map<String, Object> inner = Folders.inner();
    inner.put(key, value);
    return assertThrows(key + " = " + value, DafException.class, () -> parse(Folders.outer(inner)));
  }

  @Test
  public void namesBecomePathsInTheFolder() throws Exception {
    Map<String, Object> session = Json.parseObject(parse(Folders.outer(Folders.inner())).sessionJson());
    assertEquals(folder.root().resolve("files/m.pte").toString(), session.get("program"));
    assertEquals(folder.root().resolve("runs/r1/save/w.safetensors").toString(), session.get("save"));
    assertEquals(20L, session.get("total_steps"));
    assertFalse(session.containsKey("resume"));
    assertFalse(session.containsKey("budget_bytes"));
  }

  @Test
  public void threadsAreOfTheAppNotOfTheSession() throws Exception {
    Map<String, Object> outer = Folders.outer(Folders.inner());
    outer.put("threads", 3L);
    assertEquals(3, parse(outer).threads);
    for (Object wrong : new Object[] {0L, 257L, "2", 1.5}) {
      outer.put("threads", wrong);
      assertThrows(DafException.class, () -> parse(outer));
    }
  }

  @Test
  public void namesThatLeadOut() throws Exception {
    Path secret = temporary.getRoot().toPath().resolve("secret.pte");
    Folders.write(secret, "secret");
    for (String name :
        new String[] {
          "../secret.pte", "files/../../secret.pte", secret.toString(), "/etc/passwd", "./files/m.pte", "files//m.pte", "files/",
          "", ".", "..", "files/m.pte\u0000.txt", "..\\secret.pte", "files/\n", "~/x", "file:///etc/passwd",
          String.join("", Collections.nCopies(100_000, "a"))
        }) {
      for (String key : new String[] {"program", "manifest", "data", "resume", "save", "trace"}) {
        DafException error = refused(key, name);
        assertTrue(error.getMessage(), error.getMessage().startsWith("cannot "));
        assertTrue(error.getMessage(), error.getMessage().length() < 300);
        assertFalse(error.getMessage(), error.getMessage().contains("\n"));
      }
    }
    assertEquals("secret", new String(Files.readAllBytes(secret), "UTF-8"));
    assertOnlyTheFolderIsThere();
  }

  @Test
  public void outputsAreInTheFolderOfTheRun() {
    for (String name : new String[] {"files/m.pte", "runs/other/w.safetensors", "runs/r1", "w.safetensors", "pending.json"}) {
      assertTrue(refused("save", name).getMessage().contains("a run writes into runs/r1 only"));
      assertTrue(refused("trace", name).getMessage().contains("a run writes into runs/r1 only"));
    }
  }

  @Test
  public void symbolicLinks() throws Exception {
    Path outside = Files.createDirectory(temporary.getRoot().toPath().resolve("outside"));
    Folders.write(outside.resolve("m.pte"), "secret");
    Path root = folder.root();
    Files.createSymbolicLink(root.resolve("files/link.pte"), outside.resolve("m.pte"));
    Files.createSymbolicLink(root.resolve("linked"), outside);
    assertTrue(refused("program", "files/link.pte").getMessage().contains("it is a symbolic link"));
    assertTrue(refused("data", "linked/m.pte").getMessage().contains("it is a symbolic link"));

    // Where the session would write.
    Files.createSymbolicLink(root.resolve("runs/r1/run.trace"), outside.resolve("trace"));
    assertTrue(refused("steps", 1L).getMessage().contains("is a symbolic link"));
    Files.delete(root.resolve("runs/r1/run.trace"));
    Files.createDirectory(root.resolve("runs/r1/save"));
    Files.createSymbolicLink(root.resolve("runs/r1/save/w.optim-20.safetensors"), outside.resolve("optim"));
    assertTrue(refused("steps", 1L).getMessage().contains("is a symbolic link"));

    // The folder of the run itself.
    Files.createSymbolicLink(root.resolve("runs/r2"), outside);
    DafException error =
        assertThrows(
            DafException.class,
            () -> RunRequest.parse(folder, "r2", Json.write(Folders.outer(Folders.inner())), Folders.VERSION));
    assertTrue(error.getMessage(), error.getMessage().contains("it is a symbolic link"));
    assertEquals("[m.pte]", names(outside));
  }

  @Test
  public void writingFollowsNoLink() throws Exception {
    Path outside = temporary.getRoot().toPath().resolve("outside");
    Path status = folder.root().resolve("runs/r1/status.json");
    Files.createSymbolicLink(folder.root().resolve("runs/r1/status.json.new"), outside);
    Files.createSymbolicLink(status, outside);
    AppFolder.writeText(status, "{}");
    assertFalse(Files.exists(outside));
    assertFalse(Files.isSymbolicLink(status));
  }

  @Test
  public void hugeAndOddNumbers() {
    for (Object value : new Object[] {0L, -1L, 1_000_000_000_001L, Long.MAX_VALUE, Long.MIN_VALUE, 1e300, 1.5, "20", true, null}) {
      assertTrue(refused("steps", value).getMessage().contains("steps: expected a whole number from 1 to"));
    }
    for (String key : new String[] {"save_every", "warmup_steps"}) refused(key, -1L);
    for (Object value : new Object[] {0L, -1L, Long.MAX_VALUE, 0.5}) refused("budget_bytes", value);
    for (Object value : new Object[] {-0.1, 1e300, "fast"}) refused("lr", value);
    refused("seed", 1e30);
    refused("shuffle", 1L);
    refused("schedule", "linear");
    refused("config", "x");
    refused("program", 5L);
  }

  @Test
  public void numbersBeyondAnyType() {
    String text = Json.write(Folders.outer(Folders.inner())).replace("\"steps\":20", "\"steps\":1e999");
    assertThrows(DafException.class, () -> RunRequest.parse(folder, "r1", text, Folders.VERSION));
    String rate = Json.write(Folders.outer(Folders.inner())).replace("\"steps\":20", "\"steps\":20,\"lr\":1e999");
    assertThrows(DafException.class, () -> RunRequest.parse(folder, "r1", rate, Folders.VERSION));
  }

  @Test
  public void unknownFields() {
    assertTrue(refused("command", "rm -rf /").getMessage().contains("command: unknown key"));
    Map<String, Object> outer = Folders.outer(Folders.inner());
    outer.put("folder", "/");
    assertTrue(assertThrows(DafException.class, () -> parse(outer)).getMessage().contains("folder: unknown key"));
  }

  @Test
  public void namesOfChoices() {
    assertTrue(refused("importance", "luck").getMessage().contains("'luck' is none of uniform, calibrated, gradient"));
    assertTrue(refused("reduce", "abacus").getMessage().contains("'abacus' is none of auto, cpu, vulkan, opencl"));
    assertTrue(refused("schedule", "linear").getMessage().contains("'linear' is none of constant, cosine"));
    refused("reduce_table", "runs/r1/reduce.json");
  }

  @Test
  public void everyTruncation() {
    String text = Json.write(Folders.outer(Folders.inner()));
    for (int size = 0; size < text.length(); ++size) {
      String cut = text.substring(0, size);
      DafException error = assertThrows(DafException.class, () -> RunRequest.parse(folder, "r1", cut, Folders.VERSION));
      assertEquals(DafException.USAGE, error.code());
    }
  }

  @Test
  public void versions() throws Exception {
    Map<String, Object> outer = Folders.outer(Folders.inner());
    for (String same : new String[] {"0.1.0", "0.1.7"}) {
      outer.put("daf_version", same);
      parse(outer);
    }
    for (String other : new String[] {"0.2.0", "1.1.0", "", "0", "new\nline"}) {
      outer.put("daf_version", other);
      DafException error = assertThrows(DafException.class, () -> parse(outer));
      assertTrue(error.getMessage(), error.getMessage().contains("daf install --via app"));
    }
    outer.put("daf_version", Folders.VERSION);
    outer.put("schema", 2L);
    assertTrue(assertThrows(DafException.class, () -> parse(outer)).getMessage().contains("reads schema 1, found 2"));
  }

  @Test
  public void aProgramOfTwoGigabytes() throws Exception {
    try (RandomAccessFile file = new RandomAccessFile(folder.root().resolve("files/big.pte").toFile(), "rw")) {
      file.setLength(1L << 31); // no blocks behind it
    }
    DafException error = refused("program", "files/big.pte");
    assertEquals(DafException.PROGRAM, error.code());
    assertEquals("cannot load big.pte: it has 2.15 GB, and the app takes at most 2.15 GB; export a smaller model", error.getMessage());
  }

  @Test
  public void aRequestOfManyMegabytes() throws Exception {
    Folders.write(
        folder.root().resolve("runs/r1/request.json"), String.join("", Collections.nCopies(3_000_000, " ")));
    DafException error =
        assertThrows(DafException.class, () -> RunRequest.read(folder, "runs/r1/request.json", Folders.VERSION));
    assertTrue(error.getMessage(), error.getMessage().contains("it has more than 1048576 bytes"));
  }

  @Test
  public void requestsAreWhereTheyBelong() {
    for (String name :
        new String[] {
          "request.json", "/sdcard/request.json", "runs/../request.json", "runs/r1/other.json", "runs/none/request.json", "runs/r 1/request.json",
          "runs//request.json", "../runs/r1/request.json", ""
        }) {
      assertThrows(name, DafException.class, () -> RunRequest.read(folder, name, Folders.VERSION));
    }
  }

  private void assertOnlyTheFolderIsThere() throws Exception {
    assertEquals("[app, secret.pte]", names(temporary.getRoot().toPath()));
  }

  private static String names(Path folder) throws Exception {
    try (Stream<Path> paths = Files.list(folder)) {
      return paths.map(path -> path.getFileName().toString()).collect(Collectors.toCollection(TreeSet::new)).toString();
    }
  }
}
