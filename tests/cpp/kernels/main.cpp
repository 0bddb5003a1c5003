// Runs the tests with the kernels that DAF_ISA names. What this processor does not have is skipped:
// exit code 77 is "skipped" for ctest.
#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>

#include "runtime_ops/kernels/kernels.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    daf::current_isa();
  } catch (const std::invalid_argument& error) {
    std::printf("SKIP: %s\n", error.what());
    return 77;
  }
  return RUN_ALL_TESTS();
}
