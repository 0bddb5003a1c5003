package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes the request of a run that is started in the app: the same kind of file that a host pushes. */
public final class NewRun {
  private static final long SAVES = 20; // checkpoints of a run: what a kill costs at most is a twentieth

  private final Path program;
  private final Path data;
  private final long steps;
  public long budgetBytes = 0; // 0: the program's
  public int threads = 0; // 0: one per core
  public ReduceMode reduceMode = ReduceMode.AUTO;

  public NewRun(Path program, Path data, long steps) {
    this.program = program;
    this.data = data;
    this.steps = steps;
  }

  /** Returns the run's id. */
  public String write(AppFolder folder, String appVersion) throws DafException {
    String stem = program.getFileName().toString().replaceAll("\\.pte$", "").replaceAll("[^A-Za-z0-9]+", "-");
    String prefix = (stem.isEmpty() || stem.startsWith("-") ? "run" + stem : stem);
    prefix = prefix.substring(0, Math.min(prefix.length(), 40));
    int number = 1;
    while (Files.exists(folder.run(prefix + "-" + number))) ++number;
    String id = prefix + "-" + number;

    Map<String, Object> request = new LinkedHashMap<>();
    request.put("schema", 1L);
    request.put("program", relative(folder, program));
    request.put("manifest", relative(folder, ProgramInfo.manifestOf(program)));
    request.put("data", relative(folder, data));
    request.put("steps", steps);
    request.put("total_steps", steps);
    request.put("save", "runs/" + id + "/save/weights.safetensors");
    request.put("save_every", Math.max(1, steps / SAVES));
    request.put("trace", "runs/" + id + "/run.trace");
    if (budgetBytes > 0) request.put("budget_bytes", budgetBytes);
    request.put("reduce", reduceMode.inRequest());
    Map<String, Object> config = new LinkedHashMap<>();
    config.put("device", "app");
    config.put("steps", steps);
    config.put("reduce", reduceMode.inRequest());
    request.put("config", config);
    Map<String, Object> outer = new LinkedHashMap<>();
    outer.put("format", RunRequest.FORMAT);
    outer.put("schema", (long) RunRequest.SCHEMA);
    outer.put("daf_version", appVersion);
    outer.put("threads", threads > 0 ? (Long) (long) threads : null);
    outer.put("request", request);
    try {
      Files.createDirectories(folder.run(id));
      AppFolder.writeText(folder.run(id).resolve("request.json"), Json.write(outer));
    } catch (IOException error) {
      throw new DafException(DafException.OUTPUT, "cannot start a run: " + error.getMessage() + "; free some storage");
    }
    return id;
  }

  private static String relative(AppFolder folder, Path path) {
    return folder.root().relativize(path.toAbsolutePath()).toString();
  }
}
