#include "runtime_ops/gpu/options.h"

namespace daf {

std::unique_ptr<Reducer> make_opencl_reducer(const GpuOptions&) {
  throw GpuError(GpuError::Kind::kMissing,
                 "cannot use OpenCL: this build has none; install opencl-headers and build again");
}

}  // namespace daf
