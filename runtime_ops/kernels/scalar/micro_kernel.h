// The portable micro-kernel: 3 x 16 sums in twelve of the sixteen registers SSE has.
#pragma once

#include "runtime_ops/kernels/common/vec.h"

namespace daf::scalar {

struct MicroKernel {
  static constexpr int kMr = 3, kNr = 16;

  // sum[i][j] = sum over p < depth of a[p][i] * b[p][j], for the first kRows rows and kVecs vectors
  // of columns. a is [depth][kMr], b is [depth][kNr].
  template <int kRows, int kVecs>
  static void run(int64_t depth, const float* a, const float* b, Vec (&sum)[kRows][kVecs]) {
    for (auto& row : sum) {
      for (Vec& v : row) v = Vec{};
    }
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kVecs; ++j) sum[i][j] += a[i] * load(b + j * kWidth);
      }
    }
  }
};

}  // namespace daf::scalar
