// Arrays that are read with strides.
#pragma once

#include <cstdint>
#include <vector>

namespace daf::testing {

using Dims = std::vector<int64_t>;

inline int64_t product(const Dims& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

// Where element i of a contiguous array of `sizes` is in one with these strides.
inline int64_t place(const Dims& sizes, const Dims& strides, int64_t i) {
  int64_t offset = 0;
  for (size_t axis = sizes.size(); axis-- > 0; i /= sizes[axis]) {
    offset += i % sizes[axis] * strides[axis];
  }
  return offset;
}

}  // namespace daf::testing
