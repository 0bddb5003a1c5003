#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/philox.h"

namespace daf {

void dropout(const Dropout& rng, int64_t n, const float* x, float* y) {
  const Philox philox(rng.seed, rng.step);
  const uint64_t layer = uint64_t{rng.layer} << 32;
  // An element is dropped when its 32 bits are below p * 2^32; all are for p = 1.
  const uint64_t dropped_below = static_cast<uint64_t>(std::llround(rng.p * 4294967296.0));
  const float scale = rng.p < 1.0f ? 1.0f / (1.0f - rng.p) : 0.0f;
  for (int64_t i = 0; i < n; i += 4) {
    const auto bits = philox(layer | static_cast<uint64_t>(i / 4));
    for (int64_t lane = 0; lane < std::min<int64_t>(4, n - i); ++lane) {
      // Multiplied even where dropped: NaN stays NaN, as in PyTorch.
      y[i + lane] = x[i + lane] * (bits[lane] < dropped_below ? 0.0f : scale);
    }
  }
}

}  // namespace daf
