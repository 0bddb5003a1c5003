package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Which run has begun and not ended, on storage: after the death of the process it is continued from its last
 * checkpoint. Only runs that were started in the app: a host that started one watches over it itself.
 */
public final class PendingRun {
  private static final int MAX_BYTES = 4096;
  private final Path file;

  public PendingRun(AppFolder folder) {
    file = folder.root().resolve("pending.json");
  }

  public void set(String id) throws IOException {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format", "daf-pending");
    fields.put("schema", 1L);
    fields.put("run", id);
    AppFolder.writeText(file, Json.write(fields));
  }

  public void clear() {
    try {
      Files.deleteIfExists(file);
    } catch (IOException error) {
      // It stays, and the run is found to be complete when it is continued.
    }
  }

  /** The run's id; null when there is none. */
  public String get() {
    try {
      Map<String, Object> fields = Json.parseObject(AppFolder.readText(file, MAX_BYTES));
      Object id = fields.get("run");
      return "daf-pending".equals(fields.get("format")) && id instanceof String ? (String) id : null;
    } catch (IOException | Json.FormatException error) {
      return null;
    }
  }
}
