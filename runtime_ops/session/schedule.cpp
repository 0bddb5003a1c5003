#include "runtime_ops/session/schedule.h"

#include <algorithm>
#include <cmath>

namespace daf {

double Schedule::lr_after(int64_t steps_taken) const {
  if (steps_taken < warmup_steps) {
    return lr * static_cast<double>(steps_taken + 1) / static_cast<double>(warmup_steps);
  }
  if (kind == ScheduleKind::kConstant) return lr;
  const auto length = static_cast<double>(std::max<int64_t>(total_steps - warmup_steps, 1));
  const double progress = std::min(static_cast<double>(steps_taken - warmup_steps) / length, 1.0);
  return lr * 0.5 * (1 + std::cos(std::acos(-1.0) * progress));
}

}  // namespace daf
