// The bits of philox.h, several counters at a time.
#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int kCounters = kWidth / 2;  // in one vector
constexpr int kElements = 4 * kCounters;

// The numbers of kCounters counters from `first` on, in their order: element 4 i + w takes word w
// of counter i. Words are kept in the low halves of 64-bit lanes; what is above them does not
// count.
inline void draw(const Dropout& rng, uint64_t first, IntVec (&bits)[2]) {
  WideVec word0, word2 = WideVec{} + rng.step;
  for (int i = 0; i < kCounters; ++i) word0[i] = first + static_cast<uint64_t>(i);
  WideVec word1 = word0 >> 32, word3 = word2 >> 32;
  uint32_t key0 = static_cast<uint32_t>(rng.seed), key1 = static_cast<uint32_t>(rng.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const WideVec product0 = multiply_low(word0, 0xD2511F53);
    const WideVec product1 = multiply_low(word2, 0xCD9E8D57);
    word0 = (product1 >> 32) ^ word1 ^ uint64_t{key0};
    word1 = product1;
    word2 = (product0 >> 32) ^ word3 ^ uint64_t{key1};
    word3 = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  constexpr uint64_t kLow = 0xffffffff;
  interleave((word0 & kLow) | word1 << 32, (word2 & kLow) | word3 << 32, bits);
}

}  // namespace

void dropout(const Dropout& rng, int64_t n, const float* x, float* y) {
  const uint64_t layer = uint64_t{rng.layer} << 32;
  // An element is dropped when its 32 bits are below p * 2^32. For p = 1 the scale drops all.
  const auto limit = static_cast<uint64_t>(std::llround(rng.p * 4294967296.0));
  const auto dropped_below = static_cast<uint32_t>(std::min<uint64_t>(limit, 0xffffffff));
  const float scale = rng.p < 1.0f ? 1.0f / (1.0f - rng.p) : 0.0f;
  constexpr int64_t kCost = 4;
  const int64_t n_draws = (n + kElements - 1) / kElements;
  for_each_range(n_draws, kCost * kElements, [=](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k) {
      IntVec bits[2];
      draw(rng, layer | static_cast<uint64_t>(k * kCounters), bits);
      for (int half = 0; half < 2; ++half) {
        const Vec factor = (UnsignedVec)bits[half] < dropped_below ? Vec{} : splat(scale);
        const int64_t i = k * kElements + half * kWidth, count = n - i;
        // Multiplied even where dropped: NaN stays NaN, as in PyTorch.
        if (count >= kWidth) {
          store(y + i, load(x + i) * factor);
        } else if (count > 0) {
          store_part(y + i, load_part(x + i, count) * factor, count);
        }
      }
    }
  });
}

}  // namespace daf::DAF_ISA
