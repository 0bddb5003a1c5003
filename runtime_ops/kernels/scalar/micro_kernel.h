// The portable micro-kernel: 3 x 16 sums in twelve of the sixteen registers SSE has.
#pragma once

#include "runtime_ops/kernels/common/vec.h"

namespace daf::scalar {

struct MicroKernel {
  static constexpr int kMr = 3, kNr = 16;

  // sum[i][j] = sum over p < depth of a[p][i] * b[p][j], for the first kRows rows and kVecs vectors
  // of columns. a is [depth][kMr], b is [depth][kNr].
  template <int kRows, int kVecs>
  static inline __attribute__((always_inline)) void run(int64_t depth, const float* a,
                                                        const float* b, Vec (&sum)[kRows][kVecs]) {
    Vec total[kRows][kVecs] = {};  // not `sum` itself: an array that is passed on stays in memory
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVecs; ++j) total[i][j] += a[i] * load(b + j * kWidth);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] = total[i][j];
    }
  }
};

}  // namespace daf::scalar
