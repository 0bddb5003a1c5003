// Typed, checked access to the members of a JSON object; messages carry the path to the member.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime_ops/session/json.h"

namespace daf {

// Every getter throws FormatError, e.g. `methods.predict.inputs[0].dtype: expected a string,
// found null`. A getter with a fallback returns it when the member is missing.
class JsonFields {
 public:
  // `path` is where the object is in the document; empty at the top.
  JsonFields(const Json& object, std::string path);

  const Json* find(std::string_view key) const { return object_.find(key); }
  const Json& get(std::string_view key) const;
  std::string string(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t fallback) const;
  int64_t size(std::string_view key) const;  // an integer >= 0
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::vector<int64_t> sizes(std::string_view key) const;
  JsonFields object(std::string_view key) const;
  std::vector<JsonFields> objects(std::string_view key) const;
  const Json::Array& array(std::string_view key) const;

  void refuse_unknown(std::initializer_list<std::string_view> known) const;
  // `key: what`, with the path before it.
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;

 private:
  std::string path_of(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, const char* expected) const;

  const Json& object_;
  std::string path_;
};

}  // namespace daf
