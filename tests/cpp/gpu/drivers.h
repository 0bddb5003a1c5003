// The devices that the tests run on. Which driver that is, ctest says through the environment
// (CMakeLists.txt); DAF_TEST_BACKEND names the backend.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime_ops/gpu/options.h"

namespace daf::testing {

inline std::string backend_under_test() {
  const char* name = std::getenv("DAF_TEST_BACKEND");
  return name != nullptr ? name : "";
}

inline std::unique_ptr<Reducer> make_reducer(const GpuOptions& options) {
  if (backend_under_test() == "vulkan") return make_vulkan_reducer(options);
  if (backend_under_test() == "opencl") return make_opencl_reducer(options);
  return make_cpu_reducer();
}

// What validation had to say.
inline std::vector<std::string>& validation_messages() {
  static std::vector<std::string> messages;
  return messages;
}

// Values in the largest tests: less where a driver interprets.
inline int64_t largest_size() {
  const char* size = std::getenv("DAF_TEST_LARGEST");
  return size != nullptr ? std::atoll(size) : 10'000'000;
}

inline bool& has_validation() {  // Vulkan's layer; main() looks for it
  static bool value = false;
  return value;
}

// Under Vulkan's validation layer where it is installed.
inline GpuOptions validated(GpuOptions options = {}) {
  if (!has_validation()) return options;
  options.on_validation_message = [](const std::string& text) {
    validation_messages().push_back(text);
  };
  return options;
}

}  // namespace daf::testing
