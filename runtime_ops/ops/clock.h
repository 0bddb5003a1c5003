// The runtime input `clock`: int64[2] = {steps taken so far, seed}.
#pragma once

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

struct Clock {
  int64_t step, seed;
};

inline Clock read_clock(Arguments& args) {
  const Indices clock = args.indices("clock");
  args.require_shape(clock, {2});
  args.require(clock.data[0] >= 0, "clock says that ", clock.data[0], " steps were taken");
  return Clock{clock.data[0], clock.data[1]};
}

}  // namespace daf::ops
