// The axes of arrays that are walked together, with as few loops as their strides allow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {

// Of an output that is contiguous and kArrays inputs. Axes of one element are gone, and axes that
// lie behind each other in all inputs are one.
template <int kArrays>
struct StridedAxes {
  static constexpr int kMaxAxes = 16;
  int n_axes = 0;  // at least 1
  int64_t size[kMaxAxes] = {}, stride[kArrays][kMaxAxes] = {};

  StridedAxes(int n_dims, const int64_t* sizes, const int64_t* const (&strides)[kArrays]) {
    for (int axis = 0; axis < n_dims; ++axis) {
      if (sizes[axis] == 1) continue;
      if (n_axes > 0 && continues(axis, sizes, strides)) {
        --n_axes;
        size[n_axes] *= sizes[axis];
      } else {
        size[n_axes] = sizes[axis];
      }
      for (int k = 0; k < kArrays; ++k) stride[k][n_axes] = strides[k][axis];
      ++n_axes;
    }
    if (n_axes == 0) {
      size[0] = 1;
      for (int k = 0; k < kArrays; ++k) stride[k][0] = 1;
      n_axes = 1;
    }
  }

  int64_t inner() const { return size[n_axes - 1]; }
  int64_t n_rows() const {
    int64_t n = 1;
    for (int axis = 0; axis + 1 < n_axes; ++axis) n *= size[axis];
    return n;
  }
  // Where row `row` (all axes but the last) begins in array k.
  int64_t start(int k, int64_t row) const {
    int64_t offset = 0;
    for (int axis = n_axes - 2; axis >= 0; --axis) {
      offset += row % size[axis] * stride[k][axis];
      row /= size[axis];
    }
    return offset;
  }

  // body(row, first column, number of columns) for parts of rows that together are all elements.
  template <class Body>
  void for_each_run(Body body) const {
    const int64_t width = inner();
    for_each_range(n_rows() * width, 1, [&](int64_t first, int64_t last) {
      while (first < last) {
        const int64_t row = first / width, column = first - row * width;
        const int64_t count = std::min(width - column, last - first);
        body(row, column, count);
        first += count;
      }
    });
  }

 private:
  bool continues(int axis, const int64_t* sizes, const int64_t* const (&strides)[kArrays]) const {
    for (int k = 0; k < kArrays; ++k) {
      if (stride[k][n_axes - 1] != strides[k][axis] * sizes[axis]) return false;
    }
    return true;
  }
};

}  // namespace daf::DAF_ISA
