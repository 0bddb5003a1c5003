// The portable micro-kernel: 3 x 16 sums in twelve of the sixteen registers SSE has.
#pragma once

#include <cstdint>

namespace daf {

struct ScalarMicroKernel {
  static constexpr int kMr = 3, kNr = 16;

  // Four floats at once on every target of GCC and Clang: SSE or NEON registers where there
  // are some, plain floats elsewhere. Left to themselves the compilers spill the sums.
  using Float4 = float __attribute__((vector_size(16), may_alias));

  // b and tile are aligned to 16 bytes.
  static void run(int64_t depth, const float* a, const float* b, float* tile) {
    Float4 sum[kMr][kNr / 4] = {};
    for (int64_t p = 0; p < depth; ++p, a += kMr, b += kNr) {
      const Float4* row = reinterpret_cast<const Float4*>(b);
      for (int i = 0; i < kMr; ++i) {
        for (int j = 0; j < kNr / 4; ++j) sum[i][j] += a[i] * row[j];
      }
    }
    for (int i = 0; i < kMr; ++i) {
      for (int j = 0; j < kNr / 4; ++j) {
        reinterpret_cast<Float4*>(tile + i * kNr)[j] = sum[i][j];
      }
    }
  }
};

}  // namespace daf
