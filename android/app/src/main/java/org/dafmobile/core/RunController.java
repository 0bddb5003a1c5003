package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/**
 * What the service does, without Android: starts runs, one at a time, each on a thread of its own, and passes on what
 * people, hosts and the system ask for.
 */
public final class RunController {
  private final AppFolder folder;
  private final String appVersion;
  private final int pid;
  private final Engine.Factory engines;
  private final Conditions.Source conditions;
  private final TrainingRun.Listener listener;
  private final PendingRun pending;
  private TrainingRun current; // or the last one
  private Thread thread;

  public RunController(
      AppFolder folder,
      String appVersion,
      int pid,
      Engine.Factory engines,
      Conditions.Source conditions,
      TrainingRun.Listener listener) {
    this.folder = folder;
    this.appVersion = appVersion;
    this.pid = pid;
    this.engines = engines;
    this.conditions = conditions;
    this.listener = listener;
    pending = new PendingRun(folder);
  }

  /** For a host: what is wrong with its request goes to the status file beside it, and is thrown. */
  public void startForHost(String requestName) throws DafException {
    try {
      start(RunPlan.fromStart(RunRequest.read(folder, requestName, appVersion)), false);
    } catch (DafException error) {
      refuse(requestName, error);
      throw error;
    }
  }

  /** For the app itself: the run is continued after the death of the process. */
  public void startForUser(String id, boolean pausesInBatterySaver) throws DafException {
    start(RunPlan.fromStart(RunRequest.read(folder, "runs/" + id + "/request.json", appVersion)), true);
    current().setPausesInBatterySaver(pausesInBatterySaver);
  }

  /** False when no run was cut off. */
  public boolean continuePending() throws DafException {
    String id = pending.get();
    if (id == null || isActive()) return false;
    try {
      RunPlan plan = RunPlan.continued(RunRequest.read(folder, "runs/" + id + "/request.json", appVersion));
      if (plan != null) start(plan, true);
      else pending.clear();
      return plan != null;
    } catch (DafException error) {
      pending.clear(); // it would fail again each time
      throw error;
    }
  }

  /** `id` null: whichever runs. */
  public void stop(String id) {
    TrainingRun run = current();
    if (run != null && (id == null || run.id().equals(id))) run.stop();
  }

  public void pause() {
    if (isActive()) current().pause(RunState.Pause.USER);
  }

  public void resume() {
    if (isActive()) current().resume(RunState.Pause.USER);
  }

  public void trim(int level) {
    if (isActive()) current().trim(level);
  }

  /** To be called every second. */
  public void tick() {
    if (isActive()) current().observe(conditions.read());
  }

  /** The run that goes on, or the last one; null when there was none. */
  public synchronized TrainingRun current() {
    return current;
  }

  public synchronized boolean isActive() {
    return current != null && !current.state().phase().isOver();
  }

  /** Until the thread of the last run has ended. */
  public void join() throws InterruptedException {
    Thread last;
    synchronized (this) {
      last = thread;
    }
    if (last != null) last.join();
  }

  private synchronized void start(RunPlan plan, boolean outlivesProcess) throws DafException {
    if (isActive()) {
      throw new DafException(
          DafException.USAGE, "cannot start the run " + plan.request.id + ": " + current.id() + " is running; stop it first");
    }
    Path status = statusFile(plan.request.id);
    TrainingRun run = new TrainingRun(plan, status, pid, engines.open(), listener);
    try {
      if (outlivesProcess) pending.set(run.id());
    } catch (IOException full) {
      // It runs all the same; it could only not be continued.
    }
    current = run;
    thread = new Thread(() -> execute(run), "daf-run");
    thread.start();
  }

  private void execute(TrainingRun run) {
    run.execute();
    if (run.id().equals(pending.get())) pending.clear();
  }

  private Path statusFile(String id) throws DafException {
    return folder.output("the status", "runs/" + id + "/status.json", folder.run(id));
  }

  private void refuse(String requestName, DafException error) {
    String[] parts = requestName.split("/", -1);
    try {
      if (parts.length != 3 || !Files.isDirectory(folder.run(parts[1]), LinkOption.NOFOLLOW_LINKS)) return;
      if (isActive() && parts[1].equals(current().id())) return; // the status is that of the run itself
      TrainingRun.writeRefusal(statusFile(parts[1]), parts[1], pid, error);
    } catch (DafException | IOException cannotTell) {
      // A host that gave no folder of a run has nowhere to look.
    }
  }
}
