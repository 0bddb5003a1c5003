// How a GPU backend is started. The defaults are for use; the rest is for tests and for the checks
// of the drivers.
#pragma once

#include <functional>
#include <string>

#include "runtime_ops/gpu/reducer.h"

namespace daf {

// What goes wrong on purpose.
struct GpuFaults {
  int fails_at_call = -1;  // the driver reports `failure` at this call of the device, from 0
  GpuError::Kind failure = GpuError::Kind::kLost;
  bool omits_barriers = false;  // a validator must see it
};

struct GpuOptions {
  // Vulkan: with its validation layer, synchronization included; gets each message.
  std::function<void(const std::string&)> on_validation_message;
  // What a smaller device does not have.
  bool uses_subgroups = true, shares_memory = true;
  int max_workgroup = 256;
  GpuFaults faults;
};

// The defaults; with DAF_GPU_FAIL_AT_CALL=N, for tests, the device is lost at that call.
GpuOptions gpu_options_from_environment();

// Throw GpuError when there is no usable device, naming why.
std::unique_ptr<Reducer> make_vulkan_reducer(const GpuOptions& options = {});
std::unique_ptr<Reducer> make_opencl_reducer(const GpuOptions& options = {});

}  // namespace daf
