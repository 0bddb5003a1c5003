package org.dafmobile.core;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import org.junit.Test;

public class JsonTest {
  @Test
  public void readsWhatItWrites() throws Exception {
    String text = "{\"a\":[1,-2.5,true,null],\"b\":{\"c\":\"x\\\"\\\\\\u0001ü😀\"},\"d\":9223372036854775807,\"e\":[],\"f\":{}}";
    assertEquals(text, Json.write(Json.parse(text)));
  }

  @Test
  public void keepsIntegersApartFromOtherNumbers() throws Exception {
    assertEquals(
        Arrays.<Object>asList(1L, 1.0, 1e3, 9223372036854775808.0, -0.5), Json.parse("[1, 1.0, 1e3, 9223372036854775808, -0.5]"));
  }

  @Test
  public void readsEscapes() throws Exception {
    assertEquals("\"\\/\b\f\n\r\tA😀", Json.parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\ude00\""));
  }

  @Test
  public void refusesWhatIsNotJson() {
    for (String text :
        new String[] {
          "", " ", "{", "[", "\"", "{\"a\"}", "{\"a\":}", "{a:1}", "[1,]", "{\"a\":1,}", "01", "1.", ".5", "+1", "1e", "-", "tru", "nul", "NaN",
          "Infinity", "'a'", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "1 2", "{} {}", "[1 2]", "{\"a\":1,\"a\":2}", "\u0000"
        }) {
      Json.FormatException error = assertThrows(text, Json.FormatException.class, () -> Json.parse(text));
      assertTrue(error.getMessage(), error.getMessage().startsWith("not JSON at character "));
    }
  }

  @Test
  public void refusesDeepNestingInsteadOfOverflowing() throws Exception {
    Json.parse(nested(Json.MAX_DEPTH));
    assertThrows(Json.FormatException.class, () -> Json.parse(nested(Json.MAX_DEPTH + 1)));
    assertThrows(Json.FormatException.class, () -> Json.parse(nested(1_000_000)));
  }

  @Test
  public void wantsAnObject() throws Exception {
    assertEquals(Collections.emptyMap(), Json.parseObject(" { } "));
    assertThrows(Json.FormatException.class, () -> Json.parseObject("[]"));
    Map<String, Object> ordered = Json.parseObject("{\"b\":1,\"a\":2}");
    assertEquals("[b, a]", ordered.keySet().toString());
  }

  private static String nested(int depth) {
    return String.join("", Collections.nCopies(depth, "[")) + "1" + String.join("", Collections.nCopies(depth, "]"));
  }
}
