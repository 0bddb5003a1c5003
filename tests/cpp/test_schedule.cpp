#include <gtest/gtest.h>

#include "runtime_ops/session/schedule.h"

namespace daf {
namespace {

TEST(Schedule, ConstantStaysAfterTheWarmup) {
  const Schedule schedule = {ScheduleKind::kConstant, 0.8, 4, 10};
  EXPECT_DOUBLE_EQ(schedule.lr_after(0), 0.2);
  EXPECT_DOUBLE_EQ(schedule.lr_after(3), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr_after(4), 0.8);
  EXPECT_DOUBLE_EQ(schedule.lr_after(1000), 0.8);
}

TEST(Schedule, CosineFallsToZero) {
  const Schedule schedule = {ScheduleKind::kCosine, 1.0, 0, 4};
  EXPECT_DOUBLE_EQ(schedule.lr_after(0), 1.0);
  EXPECT_NEAR(schedule.lr_after(1), 0.8535533905932737, 1e-15);
  EXPECT_NEAR(schedule.lr_after(2), 0.5, 1e-15);
  EXPECT_NEAR(schedule.lr_after(4), 0.0, 1e-15);
  EXPECT_NEAR(schedule.lr_after(9), 0.0, 1e-15);
}

TEST(Schedule, CosineStartsAfterTheWarmup) {
  const Schedule schedule = {ScheduleKind::kCosine, 1.0, 2, 4};
  EXPECT_DOUBLE_EQ(schedule.lr_after(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.lr_after(2), 1.0);
  EXPECT_NEAR(schedule.lr_after(3), 0.5, 1e-15);
}

TEST(Schedule, SurvivesAWarmupLongerThanTheRun) {
  const Schedule schedule = {ScheduleKind::kCosine, 1.0, 8, 4};
  EXPECT_DOUBLE_EQ(schedule.lr_after(7), 1.0);
  EXPECT_DOUBLE_EQ(schedule.lr_after(8), 1.0);
  EXPECT_NEAR(schedule.lr_after(9), 0.0, 1e-15);
}

}  // namespace
}  // namespace daf
