package org.dafmobile.core;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.stream.Stream;

/**
 * The one folder that runs read from and write to. Names in requests are relative to it; whatever could lead out of
 * it (absolute names, "..", symbolic links) is refused.
 *
 * <pre>
 *   programs/            what the user opened or copied there: m.pte, m.daf.json, m.example.safetensors, data
 *   files/               what the host pushed, named by content
 *   runs/ID/             a run: request.json, status.json, run.trace, save/, resume/
 * </pre>
 */
public final class AppFolder {
  private static final int MAX_NAME_CHARACTERS = 512;

  private final Path root;

  public AppFolder(File root) throws DafException {
    try {
      Files.createDirectories(root.toPath());
      this.root = root.toPath().toRealPath();
    } catch (IOException error) {
      throw new DafException(
          DafException.OUTPUT, "cannot use the app's folder " + root + ": " + error.getMessage() + "; free some storage");
    }
  }

  public Path root() {
    return root;
  }

  public Path programs() {
    return root.resolve("programs");
  }

  public Path run(String id) throws DafException {
    if (!id.matches("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")) {
      throw new DafException(DafException.USAGE, "cannot use the run '" + shown(id) + "': letters and digits only");
    }
    return confined("the run", "runs/" + id);
  }

  /** What the session writes it names itself: a link among its files could lead it elsewhere. */
  public void refuseLinks(Path folder) throws DafException {
    if (!Files.exists(folder)) return;
    try (Stream<Path> all = Files.walk(folder)) {
      for (Iterator<Path> paths = all.iterator(); paths.hasNext(); ) {
        Path path = paths.next();
        if (Files.isSymbolicLink(path)) {
          throw new DafException(
              DafException.USAGE, "cannot run in " + root.relativize(folder) + ": " + path.getFileName() + " is a symbolic link; remove it");
        }
      }
    } catch (IOException | java.io.UncheckedIOException error) {
      throw new DafException(DafException.OUTPUT, "cannot look into " + folder + ": " + error.getMessage());
    }
  }

  /** An existing file. `what` is for the message: "the program". */
  public Path input(String what, String name, int code) throws DafException {
    Path path = confined(what, name);
    if (!Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
      throw new DafException(code, "cannot use " + what + " " + shown(name) + ": no such file in the app's folder; push it again");
    }
    return path;
  }

  /** A file that may be there or not, inside `folder`, which is made if need be. */
  public Path output(String what, String name, Path folder) throws DafException {
    Path path = confined(what, name);
    if (!path.startsWith(folder) || path.equals(folder)) {
      throw new DafException(
          DafException.USAGE,
          "cannot write " + what + " " + shown(name) + ": a run writes into " + root.relativize(folder) + " only");
    }
    try {
      Files.createDirectories(path.getParent());
    } catch (IOException error) {
      throw new DafException(DafException.OUTPUT, "cannot write " + what + " " + shown(name) + ": " + error.getMessage());
    }
    return path;
  }

  /** A name as a path below the root on which no part is a symbolic link. */
  private Path confined(String what, String name) throws DafException {
    String problem = problemOf(name);
    if (problem != null) {
      throw new DafException(
          DafException.USAGE, "cannot use " + what + " '" + shown(name) + "': " + problem + "; give a name inside the app's folder");
    }
    Path path = root;
    for (String part : name.split("/")) {
      path = path.resolve(part);
      if (Files.isSymbolicLink(path)) {
        throw new DafException(
            DafException.USAGE, "cannot use " + what + " " + shown(name) + ": it is a symbolic link; put the file itself there");
      }
    }
    return path;
  }

  private static String problemOf(String name) {
    if (name.isEmpty()) return "it has no name";
    if (name.length() > MAX_NAME_CHARACTERS) return "its name is too long";
    if (name.startsWith("/")) return "it is not relative";
    for (int i = 0; i < name.length(); ++i) {
      if (name.charAt(i) < ' ' || name.charAt(i) == '\\' || name.charAt(i) == 0x7f) return "its name has characters that names do not have";
    }
    for (String part : name.split("/", -1)) {
      if (part.isEmpty() || part.equals(".") || part.equals("..")) return "it leads out of its folder";
    }
    try {
      new File(name).toPath();
    } catch (InvalidPathException error) {
      return "it is no name of a file";
    }
    return null;
  }

  /** For messages: short, and one line whatever the name was. */
  static String shown(String name) {
    String line = name.replaceAll("\\p{Cntrl}", "?");
    return line.length() <= 80 ? line : line.substring(0, 77) + "...";
  }

  public static String readText(Path path, int maxBytes) throws IOException {
    byte[] bytes = new byte[maxBytes + 1];
    int size = 0;
    try (InputStream file = Files.newInputStream(path)) {
      for (int n; size < bytes.length && (n = file.read(bytes, size, bytes.length - size)) > 0; ) size += n;
    }
    if (size > maxBytes) throw new IOException("it has more than " + maxBytes + " bytes");
    return new String(bytes, 0, size, StandardCharsets.UTF_8);
  }

  /** Complete or as it was before; on storage when this returns. */
  public static void writeText(Path path, String text) throws IOException {
    writeText(path, text, true);
  }

  /** Without waiting for storage: for what is written again soon. */
  public static void writeTextSoon(Path path, String text) throws IOException {
    writeText(path, text, false);
  }

  private static void writeText(Path path, String text, boolean waitsForStorage) throws IOException {
    Path temporary = path.resolveSibling(path.getFileName() + ".new");
    Files.deleteIfExists(temporary); // CREATE_NEW then follows no link that somebody put there
    try (FileChannel file = FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
      while (bytes.hasRemaining()) file.write(bytes);
      if (waitsForStorage) file.force(true);
    }
    Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }
}
