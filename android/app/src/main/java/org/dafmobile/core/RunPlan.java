package org.dafmobile.core;

import java.nio.file.Files;
import java.nio.file.Path;

/** What the session is asked for: a request from its beginning, or what remains of it after its last checkpoint. */
public final class RunPlan {
  public final RunRequest request;
  public final String sessionJson;
  public final Path trace;
  public final long firstStep; // already taken

  private RunPlan(RunRequest request, String sessionJson, Path trace, long firstStep) {
    this.request = request;
    this.sessionJson = sessionJson;
    this.trace = trace;
    this.firstStep = firstStep;
  }

  public static RunPlan fromStart(RunRequest request) {
    return new RunPlan(request, request.sessionJson(), request.trace, request.totalSteps - request.steps);
  }

  /** Null when nothing remains to be done. Every part of a run has a trace of its own: run.trace, run-2.trace, ... */
  public static RunPlan continued(RunRequest request) {
    Checkpoint checkpoint = Checkpoint.find(request.save);
    if (checkpoint == null) return fromStart(request);
    long remaining = request.totalSteps - checkpoint.step;
    if (remaining <= 0) return null;
    Path trace = request.trace;
    for (int part = 2; Files.exists(trace); ++part) trace = partOf(request.trace, part);
    return new RunPlan(request, request.sessionJson(checkpoint.path, remaining, trace), trace, checkpoint.step);
  }

  /** The trace of the run's n-th part, which may not be there. */
  public static Path partOf(Path trace, int part) {
    if (part == 1) return trace;
    String name = trace.getFileName().toString();
    int dot = name.lastIndexOf('.');
    String stem = dot < 0 ? name : name.substring(0, dot), suffix = dot < 0 ? "" : name.substring(dot);
    return trace.resolveSibling(stem + "-" + part + suffix);
  }
}
