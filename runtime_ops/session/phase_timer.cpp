#include "runtime_ops/session/phase_timer.h"

namespace daf {

void PhaseTimer::start() {
  n_done_ = 0;
  elapsed_ns_ = {};
  run_ = 0;
  n_left_in_run_ = 0;
  changed_ = Clock::now();
  enter_next_run();
}

void PhaseTimer::instruction_done() {
  ++n_done_;
  if (run_ >= runs_.size() || --n_left_in_run_ > 0) return;
  charge();
  ++run_;
  enter_next_run();
}

void PhaseTimer::enter_next_run() {
  while (run_ < runs_.size() && runs_[run_].n_instructions == 0) ++run_;
  if (run_ < runs_.size()) n_left_in_run_ = runs_[run_].n_instructions;
}

void PhaseTimer::charge() {
  const Clock::time_point now = Clock::now();
  if (run_ < runs_.size()) {
    elapsed_ns_[static_cast<size_t>(runs_[run_].phase)] +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - changed_).count();
  }
  changed_ = now;
}

}  // namespace daf
