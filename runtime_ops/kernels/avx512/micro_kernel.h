// The AVX-512 micro-kernel: 8 x 32 sums in sixteen registers of sixteen floats. That is enough to
// hide the latency of the multiply-adds, and the channels of most networks are whole panels of
// eight.
#pragma once

#include <immintrin.h>

#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {

struct MicroKernel {
  static constexpr int kMr = 8, kNr = 32;

  // As the one of AVX2.
  template <int kRows, int kVecs>
  static inline __attribute__((always_inline)) void run(int64_t depth, const float* a,
                                                        const float* b, Vec (&sum)[kRows][kVecs]) {
    static_assert(kVecs % 2 == 0, "two vectors are a register");
    constexpr int kWide = kVecs / 2, kWideWidth = 2 * kWidth;
    using Wide = float __attribute__((vector_size(64)));
    Wide total[kRows][kWide] = {};
#pragma GCC unroll 2
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
      Wide row[kWide];
#pragma GCC unroll 8
      for (int j = 0; j < kWide; ++j) row[j] = _mm512_loadu_ps(b + j * kWideWidth);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Wide factor = _mm512_set1_ps(a[i]);
#pragma GCC unroll 8
        for (int j = 0; j < kWide; ++j) total[i][j] = _mm512_fmadd_ps(factor, row[j], total[i][j]);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kWide; ++j) {
        const Wide v = total[i][j];
        sum[i][2 * j] = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
        sum[i][2 * j + 1] = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
      }
    }
  }
};

}  // namespace daf::DAF_ISA
