package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.Assume;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/**
 * The native engine in a JVM of the machine it is built for. Needs -Ddaf.program=FILE.pte, exported with --activations
 * daf and with its example batch beside it, and java.library.path; skipped without.
 */
public class NativeRunTest {
  private static final int ROUNDS = Integer.getInteger("daf.rounds", 1000);

  @Rule public TemporaryFolder temporary = new TemporaryFolder();
  private Path program;
  private Path folder;

  @Before
  public void findProgram() {
    Assume.assumeTrue("no -Ddaf.program", System.getProperty("daf.program") != null);
    program = Paths.get(System.getProperty("daf.program"));
    folder = temporary.getRoot().toPath();
  }

  private Map<String, Object> request(long steps) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("schema", 1L);
    fields.put("program", program.toString());
    fields.put("manifest", ProgramInfo.manifestOf(program).toString());
    fields.put("data", ProgramInfo.exampleOf(program).toString());
    fields.put("steps", steps);
    return fields;
  }

  /** Keeps the lines, and stops when it is told to. */
  private static class Recorder implements Engine.Host {
    final List<String> lines = new ArrayList<>();
    boolean stops = false;

    @Override
    public void onLine(String line) {
      lines.add(line);
    }

    @Override
    public boolean shouldStop() {
      return stops;
    }

    List<Map<String, Object>> rows(String type) throws Exception {
      List<Map<String, Object>> found = new ArrayList<>();
      for (String line : lines) {
        Map<String, Object> row = Json.parseObject(line);
        if (type.equals(row.get("type")) || type.equals(row.get("event"))) found.add(row);
      }
      return found;
    }
  }

  @Test
  public void isOfTheVersionOfThePackage() throws Exception {
    NativeRun.open().close();
    assertEquals(System.getProperty("daf.version"), NativeRun.version());
  }

  @Test
  public void trainsAndWritesTheTrace() throws Exception {
    Path trace = folder.resolve("run.trace"), weights = folder.resolve("Gewichte-ä😀.safetensors");
    Map<String, Object> request = request(20);
    request.put("trace", trace.toString());
    request.put("save", weights.toString());
    Recorder recorder = new Recorder();
    try (NativeRun run = NativeRun.open()) {
      run.note("thermal", "{\"status\":\"light\"}");
      Map<String, Object> footer = Json.parseObject(run.run(Json.write(request), 2, recorder));
      assertEquals("done", footer.get("reason"));
    }
    assertEquals(20, recorder.rows("step").size());
    assertEquals("light", recorder.rows("thermal").get(0).get("status"));
    assertEquals(recorder.lines, Files.readAllLines(trace, StandardCharsets.UTF_8));
    assertEquals("app", ((Map<?, ?>) recorder.rows("header").get(0).get("device")).get("kind"));
    assertEquals(20, Checkpoint.find(weights).step);
    // For the caller, who compares with a run of another host.
    if (System.getProperty("daf.trace") != null) {
      Files.copy(trace, Paths.get(System.getProperty("daf.trace")), StandardCopyOption.REPLACE_EXISTING);
    }
  }

  /** On the GPU's drivers that are here, or the CPU after it was said why. */
  @Test
  public void lossesDoNotDependOnWhereReductionsRun() throws Exception {
    List<Object> expected = null;
    for (ReduceMode mode : ReduceMode.values()) {
      Map<String, Object> request = request(3);
      request.put("reduce", mode.inRequest());
      Recorder recorder = new Recorder();
      try (NativeRun run = NativeRun.open()) {
        run.run(Json.write(request), 1, recorder);
      }
      assertEquals(mode.inRequest(), recorder.rows("reduce").get(0).get("mode"));
      List<Object> losses = new ArrayList<>();
      for (Map<String, Object> row : recorder.rows("step")) losses.add(row.get("loss"));
      assertEquals(3, losses.size());
      if (expected == null) expected = losses;
      assertEquals(mode.inRequest(), expected, losses);
    }
  }

  @Test
  public void stopsWhenAsked() throws Exception {
    Recorder recorder =
        new Recorder() {
          @Override
          public void onLine(String line) {
            super.onLine(line);
            stops = line.contains("\"step\":3");
          }
        };
    try (NativeRun run = NativeRun.open()) {
      assertEquals("stopped", Json.parseObject(run.run(Json.write(request(1_000_000)), 0, recorder)).get("reason"));
    }
    assertEquals(3, recorder.rows("step").size());
  }

  @Test
  public void errorsHaveTheTextOfTheHostTool() throws Exception {
    Path cut = folder.resolve("cut.pte");
    Files.write(cut, java.util.Arrays.copyOf(Files.readAllBytes(program), 5000));
    Map<String, Object> truncated = request(1), none = request(1), unwritable = request(1), unknown = request(1), data = request(1);
    truncated.put("program", cut.toString());
    none.put("program", folder.resolve("ohne-ü😀.pte").toString());
    unwritable.put("save", folder.resolve("none/w.safetensors").toString());
    unknown.put("colour", "red");
    data.put("data", program.toString());
    String[][] expected = {
      {Json.write(truncated), "5", "cannot load " + cut + ": "},
      {Json.write(none), "5", "ohne-ü😀.pte"},
      {Json.write(unwritable), "8", "cannot write "},
      {Json.write(unknown), "2", "cannot read the run request: colour: unknown key"},
      {Json.write(data), "6", "cannot train on "},
      {"", "2", "cannot read the run request: "},
      {"{\"schema\":1", "2", "cannot read the run request: "}
    };
    for (String[] row : expected) {
      try (NativeRun run = NativeRun.open()) {
        DafException error = assertThrows(DafException.class, () -> run.run(row[0], 1, new Recorder()));
        assertEquals(error.getMessage(), Integer.parseInt(row[1]), error.code());
        assertTrue(error.getMessage(), error.getMessage().contains(row[2]));
      }
    }
    try (NativeRun run = NativeRun.open()) {
      assertThrows(DafException.class, () -> run.run(Json.write(request(1)), 9999, new Recorder()));
    }
  }

  @Test
  public void exceptionsOfTheHostComeBack() throws Exception {
    for (String when : new String[] {"\"header\"", "\"stash\"", "\"step\":2", "\"footer\""}) {
      IllegalStateException thrown = new IllegalStateException("mine");
      Recorder recorder =
          new Recorder() {
            @Override
            public void onLine(String line) {
              if (line.contains(when)) throw thrown;
            }
          };
      try (NativeRun run = NativeRun.open()) {
        assertSame(when, thrown, assertThrows(IllegalStateException.class, () -> run.run(Json.write(request(4)), 0, recorder)));
      }
    }
  }

  @Test
  public void closedEnginesDoNothing() throws Exception {
    NativeRun run = NativeRun.open();
    assertEquals("nothing runs", -1, run.trim(0));
    run.close();
    run.close();
    run.note("x", "{}");
    assertEquals(-1, run.trim(0));
    assertThrows(IllegalStateException.class, () -> run.run("{}", 0, new Recorder()));
  }

  @Test
  public void notesMustBeObjects() throws Exception {
    try (NativeRun run = NativeRun.open()) {
      assertThrows(DafException.class, () -> callNote(run, "[]"));
      assertThrows(DafException.class, () -> callNote(run, "{"));
    }
  }

  /** What native code throws is checked for the compiler, but a note is not declared to fail. */
  private static void callNote(NativeRun run, String fields) throws DafException {
    run.note("x", fields);
  }

  @Test
  public void trimsFromAnotherThreadInTheMiddleOfSteps() throws Exception {
    Recorder recorder =
        new Recorder() {
          private boolean hasTrim = false;

          @Override
          public void onLine(String line) {
            // There are as many events as the machine is fast: one trim is enough to keep.
            boolean isFirstTrim = !hasTrim && line.contains("\"trim\"");
            hasTrim |= isFirstTrim;
            if (isFirstTrim || line.contains("\"step\",")) super.onLine(line);
          }
        };
    long[] floor = {Long.MAX_VALUE};
    try (NativeRun run = NativeRun.open()) {
      Thread trimmer =
          new Thread(
              () -> {
                for (long budget = 1L << 40; !Thread.interrupted(); budget = budget > 1 ? budget / 2 : 1L << 40) {
                  long now = run.trim(budget);
                  if (now > 0) floor[0] = Math.min(floor[0], now);
                  Thread.yield();
                }
              });
      trimmer.start();
      run.run(Json.write(request(200)), 0, recorder);
      trimmer.interrupt();
      trimmer.join();
    }
    assertEquals(200, recorder.rows("step").size());
    assertFalse("trims are in the trace", recorder.rows("trim").isEmpty());
    assertTrue(floor[0] > 0 && floor[0] < Long.MAX_VALUE);
  }

  /** Load, 20 steps, a trim, an error, close: memory, threads and files are as they were. */
  @Test
  public void aThousandRunsLeakNothing() throws Exception {
    Map<String, Object> wrong = request(1);
    wrong.put("data", "none");
    long[] afterWarmUp = null;
    for (int round = 0; round < ROUNDS; ++round) {
      try (NativeRun run = NativeRun.open()) {
        run.run(
            Json.write(request(20)),
            0,
            new Engine.Host() {
              private int nSteps = 0;

              @Override
              public void onLine(String line) {}

              @Override
              public boolean shouldStop() {
                if (++nSteps == 10) run.trim(0);
                return false;
              }
            });
        assertThrows(DafException.class, () -> run.run(Json.write(wrong), 0, new Recorder()));
      }
      if (round == ROUNDS / 5) afterWarmUp = held();
    }
    long[] end = held();
    System.out.printf("after %d rounds: RSS %+d kB, files %+d, threads %+d%n", ROUNDS, end[0] - afterWarmUp[0], end[1] - afterWarmUp[1], end[2] - afterWarmUp[2]);
    assertTrue("RSS grew by " + (end[0] - afterWarmUp[0]) + " kB", end[0] - afterWarmUp[0] < 4 * ROUNDS);
    assertEquals("open files", afterWarmUp[1], end[1]);
    assertTrue("threads", end[2] - afterWarmUp[2] < 5); // the JVM has its own
  }

  /** Resident kB without Java's heap's share of noise, open files, threads. */
  private static long[] held() throws Exception {
    System.gc();
    long rss = 0;
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) rss = Long.parseLong(line.replaceAll("[^0-9]", ""));
    }
    return new long[] {rss, new File("/proc/self/fd").list().length, new File("/proc/self/task").list().length};
  }
}
