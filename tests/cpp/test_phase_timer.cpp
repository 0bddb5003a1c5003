#include <gtest/gtest.h>

#include "runtime_ops/session/phase_timer.h"

namespace daf {
namespace {

TEST(PhaseTimer, CountsInstructionsAcrossRuns) {
  PhaseTimer timer({{Phase::kForward, 2}, {Phase::kBackward, 0}, {Phase::kUpdate, 1}});
  for (int execution = 0; execution < 2; ++execution) {
    timer.start();
    for (int i = 0; i < 5; ++i) timer.instruction_done();  // more than the runs say
    timer.stop();
    EXPECT_EQ(timer.n_instructions_done(), 5);
    EXPECT_EQ(timer.elapsed_us(Phase::kBackward), 0);
    EXPECT_GE(timer.elapsed_us(Phase::kForward), 0);
  }
}

TEST(PhaseTimer, ChargesNothingWithoutRuns) {
  PhaseTimer timer({});
  timer.start();
  timer.instruction_done();
  timer.stop();
  EXPECT_EQ(timer.n_instructions_done(), 1);
  EXPECT_EQ(timer.elapsed_us(Phase::kForward), 0);
}

}  // namespace
}  // namespace daf
