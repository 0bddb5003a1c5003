package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class ImportsTest {
  @Rule public TemporaryFolder temporary = new TemporaryFolder();

  @Test
  public void namesHaveOnePart() throws Exception {
    assertEquals("m.pte", Imports.safeName("../../m.pte"));
    assertEquals("m.pte", Imports.safeName("/sdcard/Download/m.pte"));
    assertEquals("a_b.daf.json", Imports.safeName("a\nb.daf.json"));
    for (String name : new String[] {null, "", "..", "m.exe", "pte", ".pte", "x/.daf.json", "m.pte/"}) {
      assertThrows(String.valueOf(name), DafException.class, () -> Imports.safeName(name));
    }
  }

  @Test
  public void copiesCompletelyOrNotAtAll() throws Exception {
    AppFolder folder = new AppFolder(temporary.getRoot());
    Path copy = Imports.copy(folder, "../m.pte", new ByteArrayInputStream(new byte[] {1, 2, 3}));
    assertEquals(folder.programs().resolve("m.pte"), copy);
    assertEquals(3, Files.size(copy));
    InputStream broken =
        new InputStream() {
          @Override
          public int read() throws IOException {
            throw new IOException("unplugged");
          }
        };
    assertThrows(DafException.class, () -> Imports.copy(folder, "m.pte", broken));
    assertEquals(3, Files.size(copy));
    assertEquals(1, folder.programs().toFile().list().length);
  }
}
