package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * One run: its state, its history, and its status file, which a host polls.
 *
 * <p>{@link #execute} trains on the thread that calls it; everything else may be called from others.
 */
public final class TrainingRun implements Engine.Host {
  public interface Listener {
    /** Something changed that people see. On any thread. */
    void onChange(TrainingRun run);
  }

  private final RunPlan plan;
  private final Path statusFile;
  private final int pid;
  private final Engine engine;
  private final Listener listener;
  private final RunState state = new RunState();
  private final History history = new History();
  private Conditions conditions = new Conditions(Conditions.UNKNOWN, false);
  private DafException error;
  private long beat = 0;
  private boolean pausesInBatterySaver = false;

  public TrainingRun(RunPlan plan, Path statusFile, int pid, Engine engine, Listener listener) {
    this.plan = plan;
    this.statusFile = statusFile;
    this.pid = pid;
    this.engine = engine;
    this.listener = listener;
    for (int part = 1; plan.firstStep > 0; ++part) { // what earlier parts of this run have told
      Path trace = RunPlan.partOf(plan.request.trace, part);
      if (trace.equals(plan.trace) || !Files.exists(trace)) break;
      try {
        history.addFile(trace);
      } catch (IOException unreadable) {
        break;
      }
    }
  }

  public String id() {
    return plan.request.id;
  }

  public RunPlan plan() {
    return plan;
  }

  public RunState state() {
    return state;
  }

  public History history() {
    return history;
  }

  public synchronized Conditions conditions() {
    return conditions;
  }

  /** Why it failed; null when it did not. */
  public synchronized DafException error() {
    return error;
  }

  public void execute() {
    changed();
    RunState.Phase end = RunState.Phase.FAILED;
    try {
      Map<String, Object> footer = Json.parseObject(engine.run(plan.sessionJson, plan.request.threads, this));
      end = "stopped".equals(footer.get("reason")) ? RunState.Phase.STOPPED : RunState.Phase.DONE;
    } catch (DafException | Json.FormatException | RuntimeException | Error thrown) {
      synchronized (this) {
        error = ErrorKind.toDaf(thrown);
      }
    } finally {
      engine.close();
    }
    state.finish(end);
    changed();
  }

  @Override
  public void onLine(String line) {
    history.add(line);
    if (state.started()) changed();
  }

  @Override
  public boolean shouldStop() {
    return state.waitAndAskWhetherToStop();
  }

  public void pause(RunState.Pause reason) {
    if (!state.pause(reason)) return;
    note("paused", "reason", reason.name().toLowerCase(Locale.ROOT));
    changed();
  }

  public void resume(RunState.Pause reason) {
    if (!state.resume(reason)) return;
    note("resumed", "reason", reason.name().toLowerCase(Locale.ROOT));
    changed();
  }

  public void stop() {
    if (state.stop()) changed();
  }

  /** `level` as onTrimMemory gets it. The session writes what it did about it to the trace. */
  public void trim(int level) {
    long budgetBytes = TrimPolicy.budgetBytes(level, history.heldBytes());
    if (budgetBytes >= 0) engine.trim(budgetBytes);
  }

  public synchronized void setPausesInBatterySaver(boolean pauses) {
    pausesInBatterySaver = pauses;
  }

  /** Called every second: writes what has changed to the trace, and holds or releases the run. */
  public void observe(Conditions now) {
    Conditions before;
    boolean holdsForSaver;
    synchronized (this) {
      before = conditions;
      conditions = now;
      holdsForSaver = pausesInBatterySaver;
      ++beat;
    }
    if (now.thermalStatus != before.thermalStatus) note("thermal", "status", now.thermalName());
    if (now.batterySaver != before.batterySaver) note("battery_saver", "on", now.batterySaver);
    hold(RunState.Pause.HEAT, now.isTooHot(state.pauses().contains(RunState.Pause.HEAT)));
    hold(RunState.Pause.BATTERY_SAVER, holdsForSaver && now.batterySaver);
    changed();
  }

  private void hold(RunState.Pause reason, boolean holds) {
    if (holds) {
      pause(reason);
    } else {
      resume(reason);
    }
  }

  private void note(String event, String key, Object value) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put(key, value);
    engine.note(event, Json.write(fields));
  }

  private void changed() {
    try {
      writeStatus();
    } catch (IOException full) {
      // Storage is full: the run says so itself when it writes its trace or its weights.
    }
    listener.onChange(this);
  }

  private synchronized void writeStatus() throws IOException {
    List<Object> pauses = new ArrayList<>();
    for (RunState.Pause reason : state.pauses()) pauses.add(reason.name().toLowerCase(Locale.ROOT));
    Map<String, Object> fields = status(id(), pid, state.phase(), beat);
    fields.put("pauses", pauses);
    fields.put("step", history.step());
    fields.put("steps", plan.request.totalSteps);
    fields.put("thermal", conditions.thermalName());
    fields.put("battery_saver", conditions.batterySaver);
    fields.put("code", !state.phase().isOver() ? null : error == null ? 0L : (long) error.code());
    fields.put("error", error == null ? null : error.getMessage());
    AppFolder.writeTextSoon(statusFile, Json.write(fields));
  }

  /** For a request that was refused. */
  static void writeRefusal(Path statusFile, String id, int pid, DafException error) throws IOException {
    Map<String, Object> fields = status(id, pid, RunState.Phase.FAILED, 0);
    fields.put("code", (long) error.code());
    fields.put("error", error.getMessage());
    AppFolder.writeText(statusFile, Json.write(fields));
  }

  private static Map<String, Object> status(String id, int pid, RunState.Phase phase, long beat) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format", "daf-app-status");
    fields.put("schema", 1L);
    fields.put("run", id);
    fields.put("pid", (long) pid);
    fields.put("beat", beat);
    fields.put("state", phase.name().toLowerCase(Locale.ROOT));
    return fields;
  }
}
