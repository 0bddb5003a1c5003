package org.dafmobile.core;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A program in the app's folder, as its manifest describes it. */
public final class ProgramInfo {
  private static final int MAX_MANIFEST_BYTES = 16 << 20;

  public final Path program;
  public final String model;
  public final String madeBy;
  public final long batchSize;
  public final String optimizer;
  public final String activations;
  public final Map<String, Long> predictedBytes; // by part, and "peak"

  private ProgramInfo(Path program, Map<String, Object> manifest) throws Json.FormatException {
    this.program = program;
    model = text(object(manifest, "model"), "name");
    madeBy = text(manifest, "daf_version");
    batchSize = whole(manifest, "batch_size");
    optimizer = text(object(manifest, "optimizer"), "name");
    activations = text(object(manifest, "activations"), "mode");
    Map<String, Long> parts = new LinkedHashMap<>();
    Map<String, Object> memory = object(manifest, "memory");
    for (String part : memory.keySet()) {
      if (memory.get(part) instanceof Long) parts.put(part, (Long) memory.get(part));
    }
    predictedBytes = Collections.unmodifiableMap(parts);
  }

  public static Path manifestOf(Path program) {
    return program.resolveSibling(stem(program) + ".daf.json");
  }

  public static Path exampleOf(Path program) {
    return program.resolveSibling(stem(program) + ".example.safetensors");
  }

  public static ProgramInfo read(Path program) throws DafException {
    Path manifest = manifestOf(program);
    try {
      Map<String, Object> fields = Json.parseObject(AppFolder.readText(manifest, MAX_MANIFEST_BYTES));
      if (!"daf-manifest".equals(fields.get("format"))) throw new Json.FormatException("it is not a manifest");
      if (!Long.valueOf(1).equals(fields.get("schema"))) throw new Json.FormatException("it is of another schema");
      return new ProgramInfo(program, fields);
    } catch (IOException error) {
      throw new DafException(
          DafException.PROGRAM,
          "cannot use " + program.getFileName() + ": its manifest " + manifest.getFileName() + " is not beside it; copy both");
    } catch (Json.FormatException error) {
      throw new DafException(
          DafException.PROGRAM, "cannot use the manifest " + manifest.getFileName() + ": " + error.getMessage() + "; export it again");
    }
  }

  /** Programs in a folder, by name. */
  public static List<Path> list(Path folder) {
    return list(folder, ".pte");
  }

  /** Data that may be trained on. */
  public static List<Path> listData(Path folder) {
    return list(folder, ".safetensors");
  }

  private static List<Path> list(Path folder, String suffix) {
    List<Path> found = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(folder, "*" + suffix)) {
      for (Path path : all) {
        if (Files.isRegularFile(path)) found.add(path);
      }
    } catch (IOException noSuchFolder) {
      return found;
    }
    Collections.sort(found);
    return found;
  }

  private static String stem(Path program) {
    String name = program.getFileName().toString();
    return name.endsWith(".pte") ? name.substring(0, name.length() - 4) : name;
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> object(Map<String, Object> fields, String key) throws Json.FormatException {
    if (!(fields.get(key) instanceof Map)) throw new Json.FormatException(key + ": expected an object");
    return (Map<String, Object>) fields.get(key);
  }

  private static String text(Map<String, Object> fields, String key) throws Json.FormatException {
    if (!(fields.get(key) instanceof String)) throw new Json.FormatException(key + ": expected a string");
    return (String) fields.get(key);
  }

  private static long whole(Map<String, Object> fields, String key) throws Json.FormatException {
    if (!(fields.get(key) instanceof Long)) throw new Json.FormatException(key + ": expected a whole number");
    return (Long) fields.get(key);
  }
}
