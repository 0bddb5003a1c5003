#include "runtime_ops/session/manifest.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return daf::parse_or_refuse(data, size,
                              [](const std::string& text) { daf::Manifest::parse(text); });
}
