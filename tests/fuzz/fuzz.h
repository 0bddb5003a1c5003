// What all fuzzers share. A parser may refuse a file, by the exceptions that its callers expect;
// anything else is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace daf {

template <class Parse>
int parse_or_refuse(const uint8_t* data, size_t size, Parse parse) {
  try {
    parse(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const FormatError&) {
  } catch (const DafError&) {
  }
  return 0;
}

}  // namespace daf
