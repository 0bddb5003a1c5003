// The bits of philox.h, several counters at a time.
#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int kCounters = kWidth / 2;  // in one vector
constexpr int kVecs = 2;               // drawn together: a round waits for the one before it
constexpr int kElements = 4 * kCounters * kVecs;

// Words are kept in the low halves of 64-bit lanes; what is above them does not count.
struct Draw {
  WideVec step, key0[10], key1[10], lane;

  explicit Draw(const Dropout& rng) : step(WideVec{} + rng.step) {
    uint32_t low = static_cast<uint32_t>(rng.seed), high = static_cast<uint32_t>(rng.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      key0[round] = WideVec{} + low;
      key1[round] = WideVec{} + high;
      low += 0x9E3779B9;
      high += 0xBB67AE85;
    }
    for (int i = 0; i < kCounters; ++i) lane[i] = static_cast<uint64_t>(i);
  }

  // The numbers of the counters from `first` on, in their order: element 4 i + w takes word w of
  // counter i.
  void operator()(uint64_t first, IntVec (&bits)[kVecs][2]) const {
    WideVec word0[kVecs], word1[kVecs], word2[kVecs], word3[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      word0[v] = lane + (first + static_cast<uint64_t>(v * kCounters));
      word1[v] = word0[v] >> 32;
      word2[v] = step;
      word3[v] = step >> 32;
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) {
        const WideVec product0 = multiply_low(word0[v], 0xD2511F53);
        const WideVec product1 = multiply_low(word2[v], 0xCD9E8D57);
        word0[v] = (product1 >> 32) ^ word1[v] ^ key0[round];
        word1[v] = product1;
        word2[v] = (product0 >> 32) ^ word3[v] ^ key1[round];
        word3[v] = product0;
      }
    }
    constexpr uint64_t kLow = 0xffffffff;
    for (int v = 0; v < kVecs; ++v) {
      interleave((word0[v] & kLow) | word1[v] << 32, (word2[v] & kLow) | word3[v] << 32, bits[v]);
    }
  }
};

}  // namespace

void dropout(const Dropout& rng, int64_t first, int64_t n, const float* x, float* y) {
  const uint64_t layer = uint64_t{rng.layer} << 32;
  // An element is dropped when its 32 bits are below p * 2^32. For p = 1 the scale drops all.
  const auto limit = static_cast<uint64_t>(std::llround(rng.p * 4294967296.0));
  const auto dropped_below = static_cast<uint32_t>(std::min<uint64_t>(limit, 0xffffffff));
  const float scale = rng.p < 1.0f ? 1.0f / (1.0f - rng.p) : 0.0f;
  constexpr int64_t kCost = 4;
  // The first counter may be drawn for less than its four elements.
  const int64_t first_counter = first / 4, n_before = first % 4;
  const int64_t n_draws = (n_before + n + kElements - 1) / kElements;
  const Draw draw(rng);
  for_each_range(n_draws, kCost * kElements, [&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k) {
      IntVec bits[kVecs][2];
      draw(layer | static_cast<uint64_t>(first_counter + k * kCounters * kVecs), bits);
      for (int part = 0; part < 2 * kVecs; ++part) {
        const auto numbers = (UnsignedVec)bits[part / 2][part % 2];
        const Vec factor = numbers < dropped_below ? Vec{} : splat(scale);
        const int64_t i = k * kElements + part * kWidth - n_before;
        // Multiplied even where dropped: NaN stays NaN, as in PyTorch.
        if (i >= 0 && i + kWidth <= n) {
          store(y + i, load(x + i) * factor);
          continue;
        }
        for (int64_t l = std::max<int64_t>(0, -i); l < std::min<int64_t>(kWidth, n - i); ++l) {
          y[i + l] = x[i + l] * factor[l];
        }
      }
    }
  });
}

}  // namespace daf::DAF_ISA
