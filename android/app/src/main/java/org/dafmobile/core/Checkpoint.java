package org.dafmobile.core;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** What the header of a checkpoint says: safetensors, with the step in its metadata. */
public final class Checkpoint {
  private static final int MAX_HEADER_BYTES = 16 << 20;

  public final Path path;
  public final long step;

  private Checkpoint(Path path, long step) {
    this.path = path;
    this.step = step;
  }

  /** Null when there is no complete checkpoint: none was written, or what is there cannot be continued from. */
  public static Checkpoint find(Path path) {
    if (path == null || !Files.isRegularFile(path)) return null;
    try (DataInputStream file = new DataInputStream(Files.newInputStream(path))) {
      byte[] start = new byte[8];
      file.readFully(start);
      long size = ByteBuffer.wrap(start).order(ByteOrder.LITTLE_ENDIAN).getLong();
      if (size < 2 || size > MAX_HEADER_BYTES) return null;
      byte[] header = new byte[(int) size];
      file.readFully(header);
      Object metadata = Json.parseObject(new String(header, StandardCharsets.UTF_8)).get("__metadata__");
      if (!(metadata instanceof Map)) return null;
      Map<?, ?> fields = (Map<?, ?>) metadata;
      if (!"daf-checkpoint".equals(fields.get("format"))) return null;
      Object optimizer = fields.get("optimizer_file");
      if (optimizer instanceof String && !Files.isRegularFile(path.resolveSibling((String) optimizer))) return null;
      return new Checkpoint(path, Long.parseLong(String.valueOf(fields.get("step"))));
    } catch (IOException | Json.FormatException | NumberFormatException error) {
      return null;
    }
  }
}
