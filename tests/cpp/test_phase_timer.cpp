#include <gtest/gtest.h>

#include "runtime_ops/session/phase_timer.h"

namespace daf {
namespace {

TEST(PhaseTimer, CountsInstructionsAcrossRuns) {
  PhaseTimer timer({{Phase::kForward, 2}, {Phase::kBackward, 0}, {Phase::kUpdate, 1}});
  for (int execution = 0; execution < 2; ++execution) {
    timer.start();
    for (int i = 0; i < 5; ++i) timer.instruction_done();  // more than the runs say
    EXPECT_EQ(timer.n_instructions_done(), 5);
    EXPECT_EQ(timer.elapsed_us(Phase::kBackward), 0);
    EXPECT_EQ(timer.elapsed_us(Phase::kForward),
              (timer.elapsed_ns(0) + timer.elapsed_ns(1)) / 1000);
  }
}

TEST(PhaseTimer, EndsWithAnExecutionThatFails) {
  PhaseTimer timer({{Phase::kForward, 2}, {Phase::kUpdate, 1}});
  timer.start();
  timer.instruction_done();
  EXPECT_EQ(timer.n_instructions_done(), 1);
  EXPECT_EQ(timer.elapsed_us(Phase::kForward), timer.elapsed_ns(0) / 1000);
  EXPECT_EQ(timer.elapsed_us(Phase::kUpdate), 0);
}

TEST(PhaseTimer, ChargesNothingWithoutRuns) {
  PhaseTimer timer({});
  timer.start();
  timer.instruction_done();
  EXPECT_EQ(timer.n_instructions_done(), 1);
  EXPECT_EQ(timer.elapsed_us(Phase::kForward), 0);
}

}  // namespace
}  // namespace daf
