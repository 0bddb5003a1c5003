// The NEON micro-kernel: 8 x 12 sums in 24 of 32 registers, three for a row of B, two for a column
// of A, whose lanes FMLA takes directly: five loads for 24 multiply-adds.
#pragma once

#include <utility>

#include "runtime_ops/kernels/common/vec.h"

namespace daf::neon {

struct MicroKernel {
  static constexpr int kMr = 8, kNr = 12;

  // sum[i][j] = sum over p < depth of a[p][i] * b[p][j], for the first kRows rows and kVecs vectors
  // of columns. a is [depth][kMr], b is [depth][kNr].
  template <int kRows, int kVecs>
  static inline __attribute__((always_inline)) void run(int64_t depth, const float* a,
                                                        const float* b, Vec (&sum)[kRows][kVecs]) {
    Vec total[kRows][kVecs] = {};  // not `sum` itself: an array that is passed on stays in memory
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
      float32x4_t row[kVecs], column[(kRows + 3) / 4];
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) row[j] = vld1q_f32(b + 4 * j);
#pragma GCC unroll 4
      for (int i = 0; i < (kRows + 3) / 4; ++i) column[i] = vld1q_f32(a + 4 * i);
      add_rows(row, column, total, std::make_integer_sequence<int, kRows>());
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] = total[i][j];
    }
  }

 private:
  template <int kRows, int kVecs, int kColumns, int... kRow>
  static inline __attribute__((always_inline)) void add_rows(const float32x4_t (&row)[kVecs],
                                                             const float32x4_t (&column)[kColumns],
                                                             Vec (&sum)[kRows][kVecs],
                                                             std::integer_sequence<int, kRow...>) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      (add_product<kRow % 4>(row[j], column[kRow / 4], sum[kRow][j]), ...);
    }
  }

  // By itself: the intrinsic may be a macro in which a compiler does not expand a pack of
  // parameters.
  template <int kLane>
  static inline __attribute__((always_inline)) void add_product(float32x4_t row, float32x4_t column,
                                                                Vec& sum) {
    sum = (Vec)vfmaq_laneq_f32((float32x4_t)sum, row, column, kLane);
  }
};

}  // namespace daf::neon
