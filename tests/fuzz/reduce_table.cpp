#include "runtime_ops/session/reduce_table.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/temporary_file.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return daf::parse_or_refuse(data, size, [](const std::string& bytes) {
    const daf::TemporaryFile file(bytes);
    daf::load_reduce_table(file.path(), "gpu");
  });
}
