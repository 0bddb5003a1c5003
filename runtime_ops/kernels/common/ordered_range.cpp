// Smallest and largest values as integers: plain loops, which compilers vectorise.
#include <algorithm>
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {
namespace {

uint32_t key_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000);
}

OrderedRange range_of(int64_t n, const float* x) {
  uint32_t not_minimum = 0, maximum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t key = key_of(x[i]);
    not_minimum = std::max(not_minimum, ~key);
    maximum = std::max(maximum, key);
  }
  return {not_minimum, maximum};
}

}  // namespace

void ordered_ranges(int64_t n, int64_t group_size, const float* x, OrderedRange* ranges) {
  for_each_range((n + group_size - 1) / group_size, group_size, [=](int64_t from, int64_t to) {
    for (int64_t g = from; g < to; ++g) {
      ranges[g] = range_of(std::min(group_size, n - g * group_size), x + g * group_size);
    }
  });
}

}  // namespace daf::DAF_ISA
