// The bits of philox.h, several counters at a time.
#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"

namespace daf::DAF_ISA {
namespace {

constexpr int kCounters = 8;  // worked on together

// words[w][i] is word w of philox.h's Philox(seed, step) at counter first + i.
void draw(const Dropout& rng, uint64_t first, uint32_t (&words)[4][kCounters]) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  for (int i = 0; i < kCounters; ++i) {
    words[0][i] = low(first + i);
    words[1][i] = high(first + i);
    words[2][i] = low(rng.step);
    words[3][i] = high(rng.step);
  }
  uint32_t key0 = low(rng.seed), key1 = high(rng.seed);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kCounters; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53} * words[0][i];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * words[2][i];
      words[0][i] = high(product1) ^ words[1][i] ^ key0;
      words[1][i] = low(product1);
      words[2][i] = high(product0) ^ words[3][i] ^ key1;
      words[3][i] = low(product0);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

}  // namespace

void dropout(const Dropout& rng, int64_t n, const float* x, float* y) {
  const uint64_t layer = uint64_t{rng.layer} << 32;
  // An element is dropped when its 32 bits are below p * 2^32; all are for p = 1.
  const uint64_t dropped_below = static_cast<uint64_t>(std::llround(rng.p * 4294967296.0));
  const float scale = rng.p < 1.0f ? 1.0f / (1.0f - rng.p) : 0.0f;
  constexpr int64_t kElements = 4 * kCounters, kCost = 16;
  const int64_t n_draws = (n + kElements - 1) / kElements;
  for_each_range(n_draws, kCost * kElements, [=](int64_t from, int64_t to) {
    uint32_t words[4][kCounters];
    for (int64_t k = from; k < to; ++k) {
      draw(rng, layer | static_cast<uint64_t>(k * kCounters), words);
      float factor[kElements];
      for (int i = 0; i < kElements; ++i) {
        factor[i] = words[i % 4][i / 4] < dropped_below ? 0.0f : scale;
      }
      const int64_t start = k * kElements, count = std::min(kElements, n - start);
      // Multiplied even where dropped: NaN stays NaN, as in PyTorch.
      for (int64_t i = 0; i < count; ++i) y[start + i] = x[start + i] * factor[i];
    }
  });
}

}  // namespace daf::DAF_ISA
