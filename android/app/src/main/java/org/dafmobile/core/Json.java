package org.dafmobile.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A strict JSON parser and a compact writer. Objects are {@code Map<String, Object>} in the order of the text, arrays
 * {@code List<Object>}; integers that fit are {@code Long}, other numbers {@code Double}. The same rules as the
 * session's parser: no duplicate keys, no nesting deeper than {@link #MAX_DEPTH}.
 *
 * <p>Not org.json, which is lenient about all of this and is not there on a plain JVM, where this code is tested.
 */
public final class Json {
  public static final int MAX_DEPTH = 64;

  /** What is wrong with a text, with the place where it is wrong. */
  public static final class FormatException extends Exception {
    private static final long serialVersionUID = 1;

    public FormatException(String message) {
      super(message);
    }
  }

  public static Object parse(String text) throws FormatException {
    Json parser = new Json(text);
    Object value = parser.value(0);
    parser.skipSpaces();
    if (parser.at != text.length()) throw parser.error("text after the end");
    return value;
  }

  @SuppressWarnings("unchecked")
  public static Map<String, Object> parseObject(String text) throws FormatException {
    Object value = parse(text);
    if (!(value instanceof Map)) throw new FormatException("expected an object");
    return (Map<String, Object>) value;
  }

  public static String write(Object value) {
    StringBuilder text = new StringBuilder();
    write(value, text);
    return text.toString();
  }

  private final String text;
  private int at = 0;

  private Json(String text) {
    this.text = text;
  }

  private FormatException error(String what) {
    return new FormatException("not JSON at character " + at + ": " + what);
  }

  private void skipSpaces() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) ++at;
  }

  private char peek() throws FormatException {
    if (at >= text.length()) throw error("it ends too early");
    return text.charAt(at);
  }

  private void expect(char c) throws FormatException {
    if (peek() != c) throw error("expected '" + c + "'");
    ++at;
  }

  private Object value(int depth) throws FormatException {
    if (depth > MAX_DEPTH) throw error("nested too deeply");
    skipSpaces();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        return word("true", Boolean.TRUE);
      case 'f':
        return word("false", Boolean.FALSE);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Object word(String word, Object value) throws FormatException {
    if (!text.startsWith(word, at)) throw error("unknown word");
    at += word.length();
    return value;
  }

  private Map<String, Object> object(int depth) throws FormatException {
    Map<String, Object> members = new LinkedHashMap<>();
    expect('{');
    skipSpaces();
    if (peek() == '}') {
      ++at;
      return members;
    }
    while (true) {
      skipSpaces();
      String key = string();
      if (members.containsKey(key)) throw error("'" + key + "' is there twice");
      skipSpaces();
      expect(':');
      members.put(key, value(depth + 1));
      skipSpaces();
      if (peek() != ',') break;
      ++at;
    }
    expect('}');
    return members;
  }

  private List<Object> array(int depth) throws FormatException {
    List<Object> items = new ArrayList<>();
    expect('[');
    skipSpaces();
    if (peek() == ']') {
      ++at;
      return items;
    }
    while (true) {
      items.add(value(depth + 1));
      skipSpaces();
      if (peek() != ',') break;
      ++at;
    }
    expect(']');
    return items;
  }

  private String string() throws FormatException {
    expect('"');
    StringBuilder result = new StringBuilder();
    while (true) {
      char c = peek();
      if (c < ' ') throw error("a control character in a string");
      ++at;
      if (c == '"') return result.toString();
      result.append(c == '\\' ? escaped() : c);
    }
  }

  private char escaped() throws FormatException {
    char c = peek();
    ++at;
    int known = "\"\\/bfnrt".indexOf(c);
    if (known >= 0) return "\"\\/\b\f\n\r\t".charAt(known);
    if (c != 'u' || !text.substring(at, Math.min(at + 4, text.length())).matches("[0-9a-fA-F]{4}")) {
      throw error("an unknown escape");
    }
    at += 4;
    return (char) Integer.parseInt(text.substring(at - 4, at), 16);
  }

  private Object number() throws FormatException {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) ++at;
    String digits = text.substring(start, at);
    if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
      at = start;
      throw error("expected a value");
    }
    if (digits.matches("-?[0-9]+")) {
      try {
        return Long.parseLong(digits);
      } catch (NumberFormatException tooLong) {
        return Double.parseDouble(digits);
      }
    }
    return Double.parseDouble(digits);
  }

  private static void write(Object value, StringBuilder text) {
    if (value instanceof Map) {
      String separator = "{";
      if (((Map<?, ?>) value).isEmpty()) text.append('{');
      for (Map.Entry<?, ?> member : ((Map<?, ?>) value).entrySet()) {
        text.append(separator);
        writeString((String) member.getKey(), text);
        text.append(':');
        write(member.getValue(), text);
        separator = ",";
      }
      text.append('}');
    } else if (value instanceof List) {
      String separator = "";
      text.append('[');
      for (Object item : (List<?>) value) {
        text.append(separator);
        write(item, text);
        separator = ",";
      }
      text.append(']');
    } else if (value instanceof String) {
      writeString((String) value, text);
    } else {
      text.append(value); // numbers, true, false, null
    }
  }

  private static void writeString(String value, StringBuilder text) {
    text.append('"');
    for (int i = 0; i < value.length(); ++i) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        text.append('\\').append(c);
      } else if (c < ' ') {
        text.append(String.format("\\u%04x", (int) c));
      } else {
        text.append(c);
      }
    }
    text.append('"');
  }
}
