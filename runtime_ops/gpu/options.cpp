#include "runtime_ops/gpu/options.h"

#include <cstdlib>

namespace daf {

GpuOptions gpu_options_from_environment() {
  GpuOptions options;
  const char* call = std::getenv("DAF_GPU_FAIL_AT_CALL");
  if (call != nullptr && *call != '\0') options.faults.fails_at_call = std::atoi(call);
  return options;
}

}  // namespace daf
