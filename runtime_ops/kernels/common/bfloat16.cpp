// The upper half of a float32.
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {
void to_bfloat16(int64_t n, const float* x, uint16_t* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      uint32_t bits;
      std::memcpy(&bits, x + i, sizeof(bits));
      const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
      // A NaN must not be rounded to infinity or around to zero.
      const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
      y[i] = static_cast<uint16_t>((is_nan ? bits | 0x00400000 : rounded) >> 16);
    }
  });
}

void from_bfloat16(int64_t n, const uint16_t* x, float* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const uint32_t bits = uint32_t{x[i]} << 16;
      std::memcpy(y + i, &bits, sizeof(bits));
    }
  });
}

}  // namespace daf::DAF_ISA
