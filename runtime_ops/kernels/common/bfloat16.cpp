#include "runtime_ops/kernels/common/bfloat16.h"

#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {

void to_bfloat16(int64_t n, const float* x, uint16_t* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) y[i] = to_bfloat16(x[i]);
  });
}

void from_bfloat16(int64_t n, const uint16_t* x, float* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) y[i] = from_bfloat16(x[i]);
  });
}

}  // namespace daf::DAF_ISA
