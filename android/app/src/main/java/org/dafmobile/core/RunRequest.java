package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * What a run is to do, checked. In a file:
 *
 * <pre>{"format": "daf-app-request", "schema": 1, "daf_version": "0.1.0", "threads": null, "request": {...}}</pre>
 *
 * where the inner object is the session's own request with names relative to the app's folder. Outputs may only be
 * in the folder of the run.
 */
public final class RunRequest {
  public static final String FORMAT = "daf-app-request";
  public static final int SCHEMA = 1;
  static final int MAX_REQUEST_BYTES = 1 << 20;
  static final long MAX_STEPS = 1_000_000_000_000L;
  static final long MAX_PROGRAM_BYTES = Integer.MAX_VALUE;
  static final int MAX_THREADS = 256;

  private static final Set<String> OUTER = setOf("format", "schema", "daf_version", "threads", "request");
  private static final Set<String> INNER =
      setOf(
          "schema", "program", "manifest", "data", "steps", "seed", "shuffle", "lr", "schedule", "warmup_steps",
          "total_steps", "save", "save_every", "resume", "trace", "config", "budget_bytes",
          "importance", "reduce", "reduce_table");

  public final String id;
  public final Path program;
  public final Path save; // null: do not
  public final Path trace;
  public final long steps;
  public final long totalSteps; // of the schedule: where the run ends
  public final int threads; // 0: as many as there are cores
  private final Map<String, Object> session;

  private RunRequest(String id, int threads, AppFolder folder, Map<String, Object> fields) throws DafException {
    this.id = id;
    this.threads = threads;
    Path own = folder.run(id);
    folder.refuseLinks(own);
    Map<String, Object> checked = new LinkedHashMap<>();
    checked.put("schema", 1L);
    program = folder.input("the program", string(fields, "program"), DafException.PROGRAM);
    checkSize(program);
    checked.put("program", program.toString());
    checked.put("manifest", folder.input("the manifest", string(fields, "manifest"), DafException.PROGRAM).toString());
    checked.put("data", folder.input("data", string(fields, "data"), DafException.DATA).toString());
    steps = integer(fields, "steps", 1, MAX_STEPS, null);
    checked.put("steps", steps);
    checked.put("seed", integer(fields, "seed", Long.MIN_VALUE, Long.MAX_VALUE, 0L));
    checked.put("shuffle", bool(fields, "shuffle", true));
    checked.put("lr", rate(fields));
    checked.put("schedule", oneOf(fields, "schedule", "constant", "cosine"));
    checked.put("importance", oneOf(fields, "importance", null, "uniform", "calibrated", "gradient"));
    checked.put("reduce", oneOf(fields, "reduce", reduceModes()));
    if (fields.get("reduce_table") != null) throw wrong("reduce_table: the app has its own");
    checked.put("reduce_table", folder.root().resolve("reduce.json").toString());
    checked.put("warmup_steps", integer(fields, "warmup_steps", 0, MAX_STEPS, 0L));
    totalSteps = integer(fields, "total_steps", 1, 2 * MAX_STEPS, steps);
    checked.put("total_steps", totalSteps);
    if (fields.get("budget_bytes") != null) {
      checked.put("budget_bytes", integer(fields, "budget_bytes", 1, 1L << 40, null));
    }
    save = fields.get("save") == null ? null : folder.output("weights", string(fields, "save"), own);
    if (save != null) checked.put("save", save.toString());
    long saveEvery = integer(fields, "save_every", 0, MAX_STEPS, 0L);
    if (saveEvery > 0 && save == null) throw wrong("save_every needs save");
    checked.put("save_every", saveEvery);
    if (fields.get("resume") != null) {
      Path resume = folder.input("the checkpoint", string(fields, "resume"), DafException.WEIGHTS);
      checked.put("resume", resume.toString());
    }
    trace = fields.get("trace") == null ? own.resolve("run.trace") : folder.output("the trace", string(fields, "trace"), own);
    checked.put("trace", trace.toString());
    Object config = fields.get("config");
    if (config != null && !(config instanceof Map)) throw wrong("config: expected an object");
    checked.put("config", config == null ? new LinkedHashMap<String, Object>() : config);
    session = checked;
  }

  /** Reads `name`, which is runs/ID/request.json in the folder. `appVersion` is that of this app. */
  public static RunRequest read(AppFolder folder, String name, String appVersion) throws DafException {
    String[] parts = name.split("/", -1);
    if (parts.length != 3 || !parts[0].equals("runs") || !parts[2].equals("request.json")) {
      throw wrong("it must be runs/ID/request.json, found '" + AppFolder.shown(name) + "'");
    }
    folder.run(parts[1]);
    Path path = folder.input("the run request", name, DafException.USAGE);
    String text;
    try {
      text = AppFolder.readText(path, MAX_REQUEST_BYTES);
    } catch (IOException error) {
      throw wrong(error.getMessage());
    }
    return parse(folder, parts[1], text, appVersion);
  }

  public static RunRequest parse(AppFolder folder, String id, String text, String appVersion) throws DafException {
    try {
      Map<String, Object> outer = Json.parseObject(text);
      if (!FORMAT.equals(outer.get("format"))) throw wrong("it is not of the format " + FORMAT);
      if (!Long.valueOf(SCHEMA).equals(outer.get("schema"))) {
        throw wrong("this app reads schema " + SCHEMA + ", found " + AppFolder.shown(String.valueOf(outer.get("schema"))));
      }
      checkVersion(string(outer, "daf_version"), appVersion);
      refuseUnknown(outer, OUTER);
      if (!(outer.get("request") instanceof Map)) throw wrong("request: expected an object");
      @SuppressWarnings("unchecked")
      Map<String, Object> inner = (Map<String, Object>) outer.get("request");
      if (!Long.valueOf(1).equals(inner.get("schema"))) throw wrong("request.schema: expected 1");
      refuseUnknown(inner, INNER);
      int threads = outer.get("threads") == null ? 0 : (int) integer(outer, "threads", 1, MAX_THREADS, null);
      return new RunRequest(id, threads, folder, inner);
    } catch (Json.FormatException error) {
      throw wrong(error.getMessage());
    }
  }

  /** For the session: absolute paths. */
  public String sessionJson() {
    return Json.write(session);
  }

  /** The same run, continued from a checkpoint: the steps that remain, and a trace of its own. */
  public String sessionJson(Path checkpoint, long remainingSteps, Path newTrace) {
    Map<String, Object> changed = new LinkedHashMap<>(session);
    changed.put("resume", checkpoint.toString());
    changed.put("steps", remainingSteps);
    changed.put("trace", newTrace.toString());
    return Json.write(changed);
  }

  private static void checkSize(Path program) throws DafException {
    long sizeBytes;
    try {
      sizeBytes = Files.size(program);
    } catch (IOException error) {
      throw new DafException(DafException.PROGRAM, "cannot read " + program.getFileName() + ": " + error.getMessage());
    }
    if (sizeBytes > MAX_PROGRAM_BYTES) {
      throw new DafException(
          DafException.PROGRAM,
          "cannot load " + program.getFileName() + ": it has " + Text.bytes(sizeBytes) + ", and the app takes at most "
              + Text.bytes(MAX_PROGRAM_BYTES) + "; export a smaller model");
    }
  }

  private static void checkVersion(String madeBy, String appVersion) throws DafException {
    String[] theirs = madeBy.split("\\."), ours = appVersion.split("[.-]");
    if (theirs.length < 2 || !theirs[0].equals(ours[0]) || !theirs[1].equals(ours[1])) {
      throw new DafException(
          DafException.USAGE,
          "cannot run a request of daf " + AppFolder.shown(madeBy) + ": this app is of daf " + appVersion
              + "; install the app again with daf install --via app");
    }
  }

  private static void refuseUnknown(Map<String, Object> fields, Set<String> known) throws DafException {
    Set<String> unknown = new TreeSet<>(fields.keySet());
    unknown.removeAll(known);
    if (!unknown.isEmpty()) throw wrong(AppFolder.shown(unknown.iterator().next()) + ": unknown key");
  }

  private static String string(Map<String, Object> fields, String key) throws DafException {
    Object value = fields.get(key);
    if (!(value instanceof String)) throw wrong(key + ": expected a string");
    return (String) value;
  }

  private static boolean bool(Map<String, Object> fields, String key, boolean fallback) throws DafException {
    if (!fields.containsKey(key)) return fallback;
    if (!(fields.get(key) instanceof Boolean)) throw wrong(key + ": expected true or false");
    return (Boolean) fields.get(key);
  }

  private static long integer(Map<String, Object> fields, String key, long min, long max, Long fallback)
      throws DafException {
    if (!fields.containsKey(key) && fallback != null) return fallback;
    Object value = fields.get(key);
    if (!(value instanceof Long) || (Long) value < min || (Long) value > max) {
      throw wrong(key + ": expected a whole number from " + min + " to " + max);
    }
    return (Long) value;
  }

  private static Object rate(Map<String, Object> fields) throws DafException {
    Object value = fields.get("lr");
    if (value == null) return null;
    double lr = value instanceof Number ? ((Number) value).doubleValue() : Double.NaN;
    if (!(lr >= 0 && lr <= Float.MAX_VALUE)) throw wrong("lr: expected a number that is not negative");
    return lr;
  }

  /** The first name is what it is when it is not given. */
  private static String oneOf(Map<String, Object> fields, String key, String... names) throws DafException {
    if (fields.get(key) == null) return names[0];
    String name = string(fields, key);
    if (!Arrays.asList(names).contains(name)) {
      String known = Arrays.stream(names).filter(Objects::nonNull).collect(Collectors.joining(", "));
      throw wrong(key + ": '" + AppFolder.shown(name) + "' is none of " + known);
    }
    return name;
  }

  private static String[] reduceModes() {
    return Arrays.stream(ReduceMode.values()).map(ReduceMode::inRequest).toArray(String[]::new);
  }

  private static DafException wrong(String what) {
    return new DafException(
        DafException.USAGE, "cannot read the run request: " + what + "; use the same version of daf on both sides");
  }

  private static Set<String> setOf(String... names) {
    return new HashSet<>(Arrays.asList(names));
  }
}
