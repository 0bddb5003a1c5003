#include "runtime_ops/session/safetensors.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/temporary_file.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return daf::parse_or_refuse(data, size, [](const std::string& bytes) {
    const daf::TemporaryFile file(bytes);
    daf::SafetensorsFile read(file.path());
  });
}
