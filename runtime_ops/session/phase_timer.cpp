#include "runtime_ops/session/phase_timer.h"

#include <algorithm>

namespace daf {

PhaseTimer::PhaseTimer(std::vector<PhaseRun> runs) : runs_(std::move(runs)) {
  int64_t n_instructions = 0;
  for (const PhaseRun& run : runs_) n_instructions += run.n_instructions;
  ends_.reserve(static_cast<size_t>(n_instructions) + 1);
  start();
}

void PhaseTimer::start() {
  ends_.clear();
  ends_.push_back(Clock::now());
}

int64_t PhaseTimer::elapsed_ns(int64_t instruction) const {
  return between_ns(instruction, instruction + 1);
}

int64_t PhaseTimer::elapsed_us(Phase phase) const {
  int64_t total_ns = 0, first = 0;
  for (const PhaseRun& run : runs_) {
    const int64_t last = std::min(first + run.n_instructions, n_instructions_done());
    if (run.phase == phase) total_ns += between_ns(first, last);
    first = last;
  }
  return total_ns / 1000;
}

int64_t PhaseTimer::between_ns(int64_t first, int64_t last) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(ends_[static_cast<size_t>(last)] -
                                                              ends_[static_cast<size_t>(first)])
      .count();
}

}  // namespace daf
