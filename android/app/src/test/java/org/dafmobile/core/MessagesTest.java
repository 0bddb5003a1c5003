package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;

import org.junit.Test;

/** Texts, error headings, and the rules about memory and heat. */
public class MessagesTest {
  @Test
  public void everyCodeHasAHeading() {
    ErrorKind[] kinds = {
      ErrorKind.DEVICE, ErrorKind.DEVICE, ErrorKind.REQUEST, ErrorKind.DEVICE, ErrorKind.DEVICE, ErrorKind.PROGRAM, ErrorKind.DATA,
      ErrorKind.WEIGHTS, ErrorKind.STORAGE, ErrorKind.DEVICE
    };
    for (int code = 0; code < kinds.length; ++code) assertEquals(kinds[code], ErrorKind.of(code));
    assertEquals(ErrorKind.DATA, ErrorKind.of(new DafException(DafException.DATA, "x")));
    assertEquals(ErrorKind.MEMORY, ErrorKind.of(new OutOfMemoryError()));
    assertEquals(ErrorKind.DEVICE, ErrorKind.of(new IllegalStateException()));
  }

  @Test
  public void messagesPassUnchanged() {
    DafException error = new DafException(DafException.PROGRAM, "cannot load m.pte: it is truncated; export it again");
    assertSame(error, ErrorKind.toDaf(error));
    assertEquals("the device is out of memory; use a smaller model or batch", ErrorKind.toDaf(new OutOfMemoryError()).getMessage());
    assertEquals(DafException.DEVICE, ErrorKind.toDaf(new RuntimeException("x")).code());
  }

  @Test
  public void sizes() {
    Object[][] expected = {{0L, "0 B"}, {999L, "999 B"}, {1000L, "1.0 kB"}, {999_949L, "999.9 kB"}, {999_950L, "1.0 MB"}, {2_147_483_648L, "2.15 GB"}};
    for (Object[] pair : expected) assertEquals(pair[1], Text.bytes((Long) pair[0]));
  }

  @Test
  public void losses() {
    assertEquals("2.3026", Text.loss(2.30259));
    assertEquals("1.25e-05", Text.loss(1.25e-5));
    assertEquals("0.0000", Text.loss(0));
    assertEquals("not finite", Text.loss(Double.NaN));
  }

  @Test
  public void budgetsByTrimLevel() {
    long[][] expected = {{5, 900}, {10, 750}, {15, 0}, {20, -1}, {40, 750}, {60, 0}, {80, 0}, {0, -1}};
    for (long[] pair : expected) assertEquals("level " + pair[0], pair[1], TrimPolicy.budgetBytes((int) pair[0], 1000));
    assertEquals("nothing is held yet", -1, TrimPolicy.budgetBytes(80, 0));
  }

  @Test
  public void thermalNames() {
    assertEquals("unknown", new Conditions(Conditions.UNKNOWN, false).thermalName());
    assertEquals("severe", new Conditions(Conditions.SEVERE, false).thermalName());
    assertEquals("unknown", new Conditions(99, false).thermalName());
  }
}
