package org.dafmobile.core;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** An app's folder with a program and a run, for tests. */
final class Folders {
  static final String VERSION = "0.1.0";

  private Folders() {}

  static AppFolder make(File root) throws Exception {
    AppFolder folder = new AppFolder(new File(root, "app"));
    for (String name : new String[] {"files/m.pte", "files/m.daf.json", "files/d.safetensors", "runs/r1/request.json"}) {
      write(folder.root().resolve(name), "x");
    }
    return folder;
  }

  static void write(Path path, String text) throws IOException {
    Files.createDirectories(path.getParent());
    Files.write(path, text.getBytes(StandardCharsets.UTF_8));
  }

  /** A request that is right, as a test changes it. */
  static Map<String, Object> inner() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("schema", 1L);
    fields.put("program", "files/m.pte");
    fields.put("manifest", "files/m.daf.json");
    fields.put("data", "files/d.safetensors");
    fields.put("steps", 20L);
    fields.put("save", "runs/r1/save/w.safetensors");
    fields.put("trace", "runs/r1/run.trace");
    return fields;
  }

  static Map<String, Object> outer(Map<String, Object> inner) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format", "daf-app-request");
    fields.put("schema", 1L);
    fields.put("daf_version", VERSION);
    fields.put("threads", null);
    fields.put("request", inner);
    return fields;
  }

  /** A checkpoint's header, as the session writes it. */
  static void writeCheckpoint(Path path, long step, String optimizerFile) throws IOException {
    String optimizer = optimizerFile == null ? "" : ",\"optimizer_file\":\"" + optimizerFile + "\"";
    String header = "{\"__metadata__\":{\"format\":\"daf-checkpoint\",\"schema\":\"1\",\"step\":\"" + step + "\"" + optimizer + "}}";
    byte[] bytes = new byte[8 + header.length()];
    bytes[0] = (byte) header.length();
    System.arraycopy(header.getBytes(StandardCharsets.UTF_8), 0, bytes, 8, header.length());
    Files.createDirectories(path.getParent());
    Files.write(path, bytes);
  }
}
