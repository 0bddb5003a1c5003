package org.dafmobile.core;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The app's service in a plain JVM, for tests of the host's side: the controller, the commands and the engine are the
 * app's own; the intents come as files, one word of `am`'s arguments per line, and a thread takes the place of Android's
 * main looper.
 *
 * <p>Arguments: the app's folder, the folder of commands, the app's version.
 */
public final class StandInService {
  private static final long LOOK_MS = 20, TICK_MS = 1000;

  private StandInService() {}

  public static void main(String[] arguments) throws Exception {
    AppFolder folder = new AppFolder(new File(arguments[0]));
    Path commands = Paths.get(arguments[1]);
    int pid = Integer.parseInt(new File("/proc/self").getCanonicalFile().getName());
    RunController controller =
        new RunController(folder, arguments[2], pid, NativeRun::open, () -> new Conditions(Conditions.LIGHT, false), run -> {});
    System.out.println("ready");
    long tickedAt = 0;
    while (Files.isDirectory(commands)) {
      for (File file : sorted(commands)) {
        List<String> words = Files.readAllLines(file.toPath(), StandardCharsets.UTF_8);
        Files.delete(file.toPath());
        obey(controller, words);
      }
      if (System.currentTimeMillis() - tickedAt >= TICK_MS) {
        tickedAt = System.currentTimeMillis();
        controller.tick();
      }
      Thread.sleep(LOOK_MS);
    }
  }

  private static List<File> sorted(Path folder) {
    File[] found = folder.toFile().listFiles((parent, name) -> name.endsWith(".command"));
    List<File> files = new ArrayList<>(Arrays.asList(found == null ? new File[0] : found));
    files.sort((a, b) -> a.getName().compareTo(b.getName()));
    return files;
  }

  private static void obey(RunController controller, List<String> words) {
    System.out.println(words);
    if (words.get(0).equals("force-stop")) System.exit(9);
    if (!words.get(0).equals("start-foreground-service")) return;
    Map<String, String> extras = new HashMap<>();
    String action = null;
    for (int i = 1; i < words.size(); ++i) {
      if (words.get(i).equals("-a")) action = words.get(++i);
      if (words.get(i).equals("--es")) extras.put(words.get(++i), words.get(++i));
    }
    try {
      Commands.obey(controller, action, extras::get);
    } catch (DafException error) {
      System.out.println(error.getMessage());
    }
  }
}
