// Arguments with one entry for each spatial axis of a map, as convolution and pooling have.
#pragma once

#include <limits>

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

struct Extent {
  int64_t h, w;
};

// The next argument, a list of `n_axes` numbers from `least` up. A map with one axis is a map of
// height 1; `h_of_line` is what the list would say of its height.
inline Extent extent(Arguments& args, const char* name, int64_t n_axes, int64_t least,
                     int64_t h_of_line) {
  const auto list = args.integers(name);
  args.require(static_cast<int64_t>(list.size()) == n_axes, name, " has ", list.size(),
               " numbers, expected ", n_axes);
  for (int64_t value : list) {
    // The upper limit keeps all products of two of them inside int64.
    args.require(value >= least && value <= std::numeric_limits<int32_t>::max(), name, " is ",
                 value, ", expected at least ", least);
  }
  return n_axes == 1 ? Extent{h_of_line, list[0]} : Extent{list[0], list[1]};
}

}  // namespace daf::ops
