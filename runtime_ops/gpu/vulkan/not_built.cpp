#include "runtime_ops/gpu/options.h"

namespace daf {

std::unique_ptr<Reducer> make_vulkan_reducer(const GpuOptions&) {
  throw GpuError(GpuError::Kind::kMissing,
                 "cannot use Vulkan: this build has none; install glslc, libvulkan-dev and "
                 "libvulkan-volk-dev, and build again");
}

}  // namespace daf
