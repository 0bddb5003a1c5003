// The AVX2 micro-kernel: 6 x 16 sums in twelve registers, two for a row of B, two for broadcasts
// of A. Both FMA units are busy as soon as a row of B comes from L1.
#pragma once

#include "runtime_ops/kernels/common/vec.h"

namespace daf::avx2 {

struct MicroKernel {
  static constexpr int kMr = 6, kNr = 16;

  // sum[i][j] = sum over p < depth of a[p][i] * b[p][j], for the first kRows rows and kVecs vectors
  // of columns. a is [depth][kMr], b is [depth][kNr].
  template <int kRows, int kVecs>
  static inline __attribute__((always_inline)) void run(int64_t depth, const float* a,
                                                        const float* b, Vec (&sum)[kRows][kVecs]) {
    Vec total[kRows][kVecs] = {};  // not `sum` itself: an array that is passed on stays in memory
#pragma GCC unroll 4
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
      Vec row[kVecs];
#pragma GCC unroll 8
      for (int j = 0; j < kVecs; ++j) row[j] = load(b + j * kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Vec factor = _mm256_broadcast_ss(a + i);
#pragma GCC unroll 8
        for (int j = 0; j < kVecs; ++j) total[i][j] = fma(factor, row[j], total[i][j]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVecs; ++j) sum[i][j] = total[i][j];
    }
  }
};

}  // namespace daf::avx2
