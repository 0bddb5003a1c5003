package org.dafmobile.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Trains nothing: says that it took the steps it was asked for. */
final class FakeEngine implements Engine {
  final List<String> notes = Collections.synchronizedList(new ArrayList<>());
  final List<Long> budgets = Collections.synchronizedList(new ArrayList<>());
  DafException failure;
  boolean closed = false;
  String request;

  @Override
  public String run(String requestJson, int threads, Host host) throws DafException {
    request = requestJson;
    long steps, step;
    try {
      steps = (Long) Json.parseObject(requestJson).get("steps");
      step = (Long) Json.parseObject(requestJson).get("total_steps") - steps;
    } catch (Json.FormatException error) {
      throw new AssertionError(error);
    }
    host.onLine("{\"type\":\"header\"}");
    for (long i = 0; i < steps; ++i) {
      if (host.shouldStop()) return "{\"type\":\"footer\",\"reason\":\"stopped\"}";
      if (failure != null) throw failure;
      ++step;
      host.onLine("{\"type\":\"step\",\"step\":" + step + ",\"loss\":" + 1.0 / step + "}");
      host.onLine("{\"type\":\"counters\",\"step\":" + step + ",\"arena\":1000,\"workspace\":200,\"rss\":5000,\"swap\":0}");
    }
    return "{\"type\":\"footer\",\"reason\":\"done\"}";
  }

  @Override
  public long trim(long budgetBytes) {
    budgets.add(budgetBytes);
    return budgetBytes;
  }

  @Override
  public void note(String event, String fieldsJson) {
    notes.add(event + fieldsJson);
  }

  @Override
  public void close() {
    closed = true;
  }
}
