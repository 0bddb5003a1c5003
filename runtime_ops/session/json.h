// A JSON value, a strict parser (RFC 8259, no duplicate keys) and a compact writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace daf {

struct JsonMember;

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  // in the order of the text

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  // NaN and infinities are written as the strings "NaN", "Infinity" and "-Infinity".
  Json(double value) : value_(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Json(T value) : value_(static_cast<int64_t>(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value);
  Json(Object value);

  // Throws FormatError with the byte offset. Integers that fit int64 stay exact, other numbers
  // become double. Nesting deeper than kMaxDepth is an error.
  static Json parse(std::string_view text);
  static constexpr int kMaxDepth = 64;

  // One line, no spaces. Doubles have the fewest digits that read back the same. Bytes of a
  // string that are not UTF-8 come out as U+FFFD.
  std::string dump() const;

  // Null when this is not of that type.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }

  // The member of an object; null when there is none or this is not an object.
  const Json* find(std::string_view key) const;

  // "a string", "an object", ... for messages.
  const char* type_name() const;

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value_ = nullptr;
};

struct JsonMember {
  std::string key;
  Json value;
};

inline Json::Json(Array value) : value_(std::move(value)) {}
inline Json::Json(Object value) : value_(std::move(value)) {}

}  // namespace daf
