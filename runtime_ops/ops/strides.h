// Where the elements of a contiguous array are read for another shape.
#pragma once

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

struct Strides {
  int64_t of[Shape::kMaxRank] = {};
};

inline Strides contiguous_strides(const Shape& shape) {
  Strides strides;
  int64_t stride = 1;
  for (int64_t axis = shape.rank() - 1; axis >= 0; --axis) {
    strides.of[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// Of an array `own` in a result of `shape`, whose last axes it has; 0 where it is repeated.
inline Strides broadcast_strides(const Shape& own, const Shape& shape) {
  const Strides all = contiguous_strides(own);
  Strides strides;
  for (int64_t axis = 0; axis < own.rank(); ++axis) {
    if (own[axis] != 1) strides.of[axis + shape.rank() - own.rank()] = all.of[axis];
  }
  return strides;
}

// Whether the array can be repeated to that shape.
inline bool broadcasts_to(const Shape& own, const Shape& shape) {
  if (own.rank() > shape.rank()) return false;
  for (int64_t axis = 0; axis < own.rank(); ++axis) {
    const int64_t wanted = shape[axis + shape.rank() - own.rank()];
    if (own[axis] != 1 && own[axis] != wanted) return false;
  }
  return true;
}

}  // namespace daf::ops
