// The learning rate of each step.
#pragma once

#include <cstdint>

namespace daf {

enum class ScheduleKind { kConstant, kCosine };

// A linear rise over the first `warmup_steps`, then constant, or half a cosine that reaches 0
// when `total_steps` have been taken.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;

  double lr_after(int64_t steps_taken) const;
};

}  // namespace daf
