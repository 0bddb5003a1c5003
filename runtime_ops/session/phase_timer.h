// Time of each instruction of an execution, and so of forward, backward and update.
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

class PhaseTimer {
 public:
  explicit PhaseTimer(std::vector<PhaseRun> runs);

  void start();
  void instruction_done() { ends_.push_back(Clock::now()); }

  int64_t n_instructions_done() const { return static_cast<int64_t>(ends_.size()) - 1; }
  int64_t elapsed_ns(int64_t instruction) const;
  int64_t elapsed_us(Phase phase) const;

 private:
  using Clock = std::chrono::steady_clock;

  int64_t between_ns(int64_t first, int64_t last) const;

  std::vector<PhaseRun> runs_;
  std::vector<Clock::time_point> ends_;  // the start, then the end of each instruction
};

}  // namespace daf
