package org.dafmobile.core;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** Files that the user opens with the app: copied into its folder, under a name of one part. */
public final class Imports {
  private Imports() {}

  /** `name` is what another app says the file is called. */
  public static Path copy(AppFolder folder, String name, InputStream content) throws DafException {
    String kept = safeName(name);
    Path target = folder.programs().resolve(kept);
    Path temporary = folder.programs().resolve(kept + ".part");
    try {
      Files.createDirectories(folder.programs());
      Files.deleteIfExists(temporary);
      try (OutputStream file = Files.newOutputStream(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
        byte[] buffer = new byte[1 << 16];
        long total = 0;
        for (int n; (n = content.read(buffer)) > 0; ) {
          total += n;
          if (total > RunRequest.MAX_PROGRAM_BYTES) {
            throw new DafException(
                DafException.DATA, "cannot import " + kept + ": it has more than " + Text.bytes(RunRequest.MAX_PROGRAM_BYTES) + "; use a smaller file");
          }
          file.write(buffer, 0, n);
        }
      }
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      return target;
    } catch (IOException error) {
      throw new DafException(DafException.OUTPUT, "cannot import " + kept + ": " + error.getMessage() + "; free some storage");
    } finally {
      temporary.toFile().delete();
    }
  }

  static String safeName(String name) throws DafException {
    String last = name == null ? "" : name.substring(name.lastIndexOf('/') + 1).replaceAll("[\\p{Cntrl}\\\\:*?\"<>|]", "_");
    if (last.length() > 120) last = last.substring(last.length() - 120);
    boolean known = last.endsWith(".pte") || last.endsWith(".daf.json") || last.endsWith(".safetensors");
    if (!known || last.startsWith(".")) {
      throw new DafException(
          DafException.USAGE,
          "cannot import '" + AppFolder.shown(last) + "': it is neither a program (.pte), a manifest (.daf.json) nor tensors (.safetensors); choose another file");
    }
    return last;
  }
}
