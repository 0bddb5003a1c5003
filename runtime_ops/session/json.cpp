#include "runtime_ops/session/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>

#include "runtime_ops/session/error.h"

namespace daf {
namespace {

// Length of the UTF-8 sequence at the start of `text`, 0 when it is not valid (overlong forms,
// surrogates and code points above U+10FFFF are not).
size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return text.empty() ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

void append_utf8(uint32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  const int n_tail = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const unsigned lead_bits[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(lead_bits[n_tail] | (code_point >> (6 * n_tail)));
  for (int i = n_tail - 1; i >= 0; --i) {
    out += static_cast<char>(0x80 | ((code_point >> (6 * i)) & 0x3F));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json document() {
    Json value = parse_value(0);
    skip_space();
    if (at_ < text_.size()) fail("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError("not valid JSON at byte " + std::to_string(at_) + ": " + what);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json parse_value(int depth) {
    if (depth > Json::kMaxDepth) fail("nested too deeply");
    skip_space();
    if (at_ >= text_.size()) fail("unexpected end");
    switch (text_[at_]) {
      case '{':
        return parse_object(depth);
      case '[':
        return parse_array(depth);
      case '"':
        return parse_string();
      default:
        if (take_word("null")) return nullptr;
        if (take_word("true")) return true;
        if (take_word("false")) return false;
        return parse_number();
    }
  }

  Json parse_array(int depth) {
    Json::Array items;
    ++at_;
    skip_space();
    if (take(']')) return items;
    while (true) {
      items.push_back(parse_value(depth + 1));
      skip_space();
      if (take(']')) return items;
      if (!take(',')) fail("expected ',' or ']'");
    }
  }

  Json parse_object(int depth) {
    Json::Object members;
    ++at_;
    skip_space();
    if (take('}')) return members;
    while (true) {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') fail("expected a key in quotes");
      std::string key = parse_string();
      skip_space();
      if (!take(':')) fail("expected ':'");
      members.push_back({std::move(key), parse_value(depth + 1)});
      skip_space();
      if (take('}')) break;
      if (!take(',')) fail("expected ',' or '}'");
    }
    refuse_duplicates(members);
    return members;
  }

  void refuse_duplicates(const Json::Object& members) const {
    std::vector<std::string_view> keys;
    for (const JsonMember& member : members) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin != keys.end()) fail("the key '" + std::string(*twin) + "' is there twice");
  }

  std::string parse_string() {
    std::string out;
    ++at_;
    while (true) {
      if (at_ >= text_.size()) fail("unexpected end in a string");
      if (take('"')) return out;
      if (take('\\')) {
        parse_escape(out);
        continue;
      }
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("control character in a string");
      const size_t length = utf8_sequence_length(text_.substr(at_));
      if (length == 0) fail("not valid UTF-8");
      out.append(text_, at_, length);
      at_ += length;
    }
  }

  void parse_escape(std::string& out) {
    if (at_ >= text_.size()) fail("unexpected end in a string");
    const std::string_view codes = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
    const size_t found = codes.find(text_[at_]);
    if (found != codes.npos) {
      out += characters[found];
      ++at_;
      return;
    }
    if (!take('u')) fail("unknown escape");
    uint32_t code_point = parse_hex4();
    if (code_point >= 0xD800 && code_point <= 0xDBFF) {
      if (!take_word("\\u")) fail("half of a surrogate pair");
      const uint32_t low = parse_hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    } else if (code_point >= 0xDC00 && code_point <= 0xDFFF) {
      fail("half of a surrogate pair");
    }
    append_utf8(code_point, out);
  }

  uint32_t parse_hex4() {
    const std::string_view digits = text_.substr(at_, 4);
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
    if (error != std::errc() || end != digits.end() || digits.size() != 4) {
      fail("expected four hex digits");
    }
    at_ += 4;
    return value;
  }

  size_t take_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  Json parse_number() {
    const size_t begin = at_;
    take('-');
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const size_t n_digits = take_digits();
    if (n_digits == 0) fail("expected a value");
    if (zero && n_digits > 1) fail("a number must not start with 0");
    bool integral = true;
    if (take('.')) {
      integral = false;
      if (take_digits() == 0) fail("expected a digit");
    }
    if (take('e') || take('E')) {
      integral = false;
      if (!take('+')) take('-');
      if (take_digits() == 0) fail("expected a digit");
    }
    const std::string_view number = text_.substr(begin, at_ - begin);
    if (integral) {
      int64_t value = 0;
      if (std::from_chars(number.begin(), number.end(), value).ec == std::errc()) return value;
    }
    return parse_double(number);
  }

  // Not std::from_chars, which some standard libraries lack for double, nor strtod, which
  // follows the process's locale.
  double parse_double(std::string_view number) const {
    std::istringstream stream{std::string(number)};
    stream.imbue(std::locale::classic());
    double value = 0;
    stream >> value;
    if (stream.fail()) fail("the number is out of range");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void write_string(std::string_view text, std::string& out) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += {'\\', c};
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      const char* hex = "0123456789abcdef";
      out += "\\u00";
      out += {hex[c >> 4], hex[c & 15]};
      ++i;
    } else if (const size_t length = utf8_sequence_length(text.substr(i))) {
      out.append(text, i, length);
      i += length;
    } else {
      append_utf8(0xFFFD, out);
      ++i;
    }
  }
  out += '"';
}

void write_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  char digits[32];
  const auto result = std::to_chars(digits, digits + sizeof(digits), value);
  const std::string_view text(digits, static_cast<size_t>(result.ptr - digits));
  out += text;
  // A whole number keeps its type when it is read back.
  if (text.find_first_of(".e") == text.npos) out += ".0";
}

void write(const Json& value, std::string& out) {
  if (value.is_null()) {
    out += "null";
  } else if (const bool* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (const int64_t* integer = value.integer()) {
    out += std::to_string(*integer);
  } else if (const double* real = value.real()) {
    write_double(*real, out);
  } else if (const std::string* string = value.string()) {
    write_string(*string, out);
  } else if (const Json::Array* array = value.array()) {
    out += '[';
    for (const Json& item : *array) {
      if (&item != array->data()) out += ',';
      write(item, out);
    }
    out += ']';
  } else if (const Json::Object* object = value.object()) {
    out += '{';
    for (const JsonMember& member : *object) {
      if (&member != object->data()) out += ',';
      write_string(member.key, out);
      out += ':';
      write(member.value, out);
    }
    out += '}';
  }
}

}  // namespace

Json Json::parse(std::string_view text) { return Parser(text).document(); }

std::string Json::dump() const {
  std::string out;
  write(*this, out);
  return out;
}

const Json* Json::find(std::string_view key) const {
  if (const Object* members = object()) {
    for (const JsonMember& member : *members) {
      if (member.key == key) return &member.value;
    }
  }
  return nullptr;
}

const char* Json::type_name() const {
  static constexpr const char* kNames[] = {"null",     "a boolean", "an integer", "a number",
                                           "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

}  // namespace daf
