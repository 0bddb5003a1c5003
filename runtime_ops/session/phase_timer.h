// Time spent in forward, backward and update, from the number of instructions run so far.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace daf {

enum class Phase { kForward, kBackward, kUpdate };
inline constexpr std::array<const char*, 3> kPhaseNames = {"forward", "backward", "update"};

// `n_instructions` instructions in a row that belong to `phase`.
struct PhaseRun {
  Phase phase;
  int64_t n_instructions;
};

// Reads the clock only where the phase changes.
class PhaseTimer {
 public:
  explicit PhaseTimer(std::vector<PhaseRun> runs) : runs_(std::move(runs)) {}

  void start();
  void instruction_done();
  void stop() { charge(); }

  int64_t n_instructions_done() const { return n_done_; }
  int64_t elapsed_us(Phase phase) const { return elapsed_ns_[static_cast<size_t>(phase)] / 1000; }

 private:
  using Clock = std::chrono::steady_clock;

  // Charges the time since the last change to the current run.
  void charge();
  // Makes the next run that has instructions the current one.
  void enter_next_run();

  std::vector<PhaseRun> runs_;
  size_t run_ = 0;
  int64_t n_left_in_run_ = 0;
  int64_t n_done_ = 0;
  Clock::time_point changed_;
  std::array<int64_t, 3> elapsed_ns_ = {};
};

}  // namespace daf
