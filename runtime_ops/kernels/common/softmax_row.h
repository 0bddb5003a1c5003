// The passes over a row of logits.
#pragma once

#include <algorithm>
#include <limits>

#include "runtime_ops/kernels/common/math.h"
#include "runtime_ops/kernels/common/reduce.h"

namespace daf::DAF_ISA {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

// y = f(x) and the sum of it.
template <class F>
double map_and_sum(int64_t n, const float* x, float* y, F f) {
  constexpr int64_t kBlock = 32 * kWidth;
  double total = 0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t last = std::min(n, start + kBlock);
    Vec part[2] = {};
    int64_t i = start;
    for (; i + 2 * kWidth <= last; i += 2 * kWidth) {
      for (int u = 0; u < 2; ++u) {
        const Vec v = f(load(x + i + u * kWidth));
        store(y + i + u * kWidth, v);
        part[u] += v;
      }
    }
    for (; i < last; i += kWidth) {
      const int64_t count = std::min<int64_t>(kWidth, last - i);
      store_part(y + i, f(load_part(x + i, count)), count);
      part[0] += load_part(y + i, count);
    }
    total += sum_of_lanes(part[0] + part[1]);
  }
  return total;
}

inline float max_of_row(int64_t n, const float* x) {
  Vec most[2] = {splat(kLowest), splat(kLowest)};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    for (int u = 0; u < 2; ++u) most[u] = larger(load(x + i + u * kWidth), most[u]);
  }
  const Vec all = larger(most[0], most[1]);
  float result = kLowest;
  for (int l = 0; l < kWidth; ++l) result = all[l] > result ? all[l] : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

}  // namespace daf::DAF_ISA
