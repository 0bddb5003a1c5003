#include "runtime_ops/session/json.h"

#include <cstdlib>

#include "tests/fuzz/fuzz.h"

// What was read is written so that it reads the same again.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return daf::parse_or_refuse(data, size, [](const std::string& text) {
    const std::string written = daf::Json::parse(text).dump();
    if (daf::Json::parse(written).dump() != written) std::abort();
  });
}
