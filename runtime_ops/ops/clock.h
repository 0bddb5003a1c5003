// The runtime input `clock`: int64[2] = {steps taken so far, seed}.
#pragma once

#include <limits>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

struct Clock {
  int64_t step, seed;
};

inline Clock read_clock(Arguments& args) {
  const Indices clock = args.indices("clock");
  args.require_shape(clock, {2});
  const int64_t step = clock.data[0];
  args.require(step >= 0 && step < std::numeric_limits<int64_t>::max(), "clock says that ", step,
               " steps were taken");
  return Clock{step, clock.data[1]};
}

inline Dropout make_dropout(const Clock& clock, float p, uint32_t layer) {
  return {p, static_cast<uint64_t>(clock.seed), static_cast<uint64_t>(clock.step), layer};
}

}  // namespace daf::ops
