// Runs the tests on the driver that the environment names. One that is not installed is skipped:
// exit code 77 is "skipped" for ctest.
#include <cstdio>

#include "tests/cpp/gpu/drivers.h"

namespace {

void look_for_validation() {
  using daf::testing::has_validation;
  if (daf::testing::backend_under_test() != "vulkan") return;
  try {
    has_validation() = true;
    daf::testing::make_reducer(daf::testing::validated());
  } catch (const daf::GpuError& error) {
    has_validation() = false;
    std::printf("SKIP validation: %s (Debian: apt-get install vulkan-validationlayers)\n",
                error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    const auto reducer = daf::testing::make_reducer({});
    std::printf("on %s, %s\n", reducer->device().name.c_str(), reducer->device().driver.c_str());
  } catch (const daf::GpuError& error) {
    std::printf("SKIP: %s\n", error.what());
    return 77;
  }
  look_for_validation();
  return RUN_ALL_TESTS();
}
