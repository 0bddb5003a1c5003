#include "runtime_ops/session/json_fields.h"

#include <algorithm>

#include "runtime_ops/session/error.h"

namespace daf {

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object.object() == nullptr) {
    throw FormatError((path_.empty() ? "" : path_ + ": ") + "expected an object, found " +
                      object.type_name());
  }
}

const Json& JsonFields::get(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(key, "missing");
  return *value;
}

std::string JsonFields::string(std::string_view key) const {
  const std::string* value = get(key).string();
  if (value == nullptr) fail_type(key, "a string");
  return *value;
}

int64_t JsonFields::integer(std::string_view key) const {
  const int64_t* value = get(key).integer();
  if (value == nullptr) fail_type(key, "an integer");
  return *value;
}

int64_t JsonFields::integer(std::string_view key, int64_t fallback) const {
  return find(key) == nullptr ? fallback : integer(key);
}

int64_t JsonFields::size(std::string_view key) const {
  const int64_t value = integer(key);
  if (value < 0) fail(key, "must not be negative, found " + std::to_string(value));
  return value;
}

double JsonFields::number(std::string_view key) const {
  const Json& value = get(key);
  if (const int64_t* integer = value.integer()) return static_cast<double>(*integer);
  if (value.real() == nullptr) fail_type(key, "a number");
  return *value.real();
}

bool JsonFields::boolean(std::string_view key) const {
  const bool* value = get(key).boolean();
  if (value == nullptr) fail_type(key, "true or false");
  return *value;
}

bool JsonFields::boolean(std::string_view key, bool fallback) const {
  return find(key) == nullptr ? fallback : boolean(key);
}

std::vector<int64_t> JsonFields::sizes(std::string_view key) const {
  std::vector<int64_t> result;
  for (const Json& item : array(key)) {
    if (item.integer() == nullptr || *item.integer() < 0) {
      fail(key, "expected sizes >= 0, found " + item.dump());
    }
    result.push_back(*item.integer());
  }
  return result;
}

JsonFields JsonFields::object(std::string_view key) const {
  return JsonFields(get(key), path_of(key));
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  const Json::Array& items = array(key);
  std::vector<JsonFields> result;
  for (size_t i = 0; i < items.size(); ++i) {
    result.emplace_back(items[i], path_of(key) + "[" + std::to_string(i) + "]");
  }
  return result;
}

const Json::Array& JsonFields::array(std::string_view key) const {
  const Json::Array* items = get(key).array();
  if (items == nullptr) fail_type(key, "an array");
  return *items;
}

void JsonFields::refuse_unknown(std::initializer_list<std::string_view> known) const {
  for (const JsonMember& member : *object_.object()) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      fail(member.key, "unknown key");
    }
  }
}

void JsonFields::fail(std::string_view key, const std::string& what) const {
  throw FormatError(path_of(key) + ": " + what);
}

void JsonFields::fail_type(std::string_view key, const char* expected) const {
  fail(key, std::string("expected ") + expected + ", found " + get(key).type_name());
}

std::string JsonFields::path_of(std::string_view key) const {
  return (path_.empty() ? "" : path_ + ".") + std::string(key);
}

}  // namespace daf
