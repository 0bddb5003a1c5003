// One bit per element is all that backward needs of a ReLU.
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kCost = 2;  // of an element, in additions

// In ranges that begin at whole words of a mask.
template <class Body>
void for_each_words(int64_t n, Body body) {
  for_each_range((n + 31) / 32, 32 * kCost,
                 [&](int64_t first, int64_t last) { body(first * 32, std::min(n, last * 32)); });
}

// Word i / 32 of the mask of x[i, i + 32), of which `n` are there.
template <class Passes>
uint32_t mask_word(const float* x, int64_t n, Passes passes) {
  uint32_t word = 0;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) word |= lane_bits(passes(load(x + i))) << i;
  if (i < n) {
    const uint32_t bits = lane_bits(passes(load_part(x + i, n - i)));
    word |= (bits & ((1u << (n - i)) - 1)) << i;
  }
  return word;
}

// All ones in the lanes whose bit of `bits` is set.
IntVec lanes_of(uint32_t bits) {
  IntVec lane_bit;
  for (int i = 0; i < kWidth; ++i) lane_bit[i] = 1 << i;
  return (IntVec{} + static_cast<int32_t>(bits) & lane_bit) == lane_bit;
}

// 32 bits of the mask from bit `first` on, of which `n` are there.
uint32_t bits_at(const uint32_t* mask, int64_t first, int64_t n) {
  const uint32_t* word = mask + first / 32;
  const int64_t shift = first % 32;
  uint32_t bits = word[0] >> shift;
  if (shift != 0 && n > 32 - shift) bits |= word[1] << (32 - shift);
  return bits;
}

}  // namespace

void activation_with_mask(Activation kind, float a, float b, int64_t n, const float* x, float* y,
                          uint32_t* mask) {
  const auto run = [=](auto value, auto passes) {
    for_each_words(n, [=](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i += 32) {
        const int64_t count = std::min<int64_t>(32, last - i);
        mask[i / 32] = mask_word(x + i, count, passes);
        map(count, x + i, y + i, value);
      }
    });
  };
  // As the comparisons of `activation` and `activation_backward`: NaN goes where they send it.
  const Vec low = splat(a), high = splat(b), zero{};
  switch (kind) {
    case Activation::kRelu:
      return run([=](Vec v) { return v < 0.0f ? zero : v; }, [=](Vec v) { return ~(v <= 0.0f); });
    case Activation::kHardtanh:
      return run(
          [=](Vec v) {
            const Vec capped = v > high ? high : v;
            return v < low ? low : capped;
          },
          [=](Vec v) { return ~((v <= low) | (v >= high)); });
    case Activation::kLeakyRelu:
      return run([=](Vec v) { return v > 0.0f ? v : v * low; }, [=](Vec v) { return v > 0.0f; });
    default:
      return;  // the adapters refuse the others
  }
}

void apply_mask(int64_t n, const uint32_t* mask, int64_t first, float slope, const float* x,
                float* y) {
  for_each_words(n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 32) {
      const int64_t count = std::min<int64_t>(32, end - i);
      uint32_t bits = bits_at(mask, first + i, count);
      for (int64_t j = 0; j < count; j += kWidth, bits >>= (kWidth & 31)) {
        const int64_t lanes = std::min<int64_t>(kWidth, count - j);
        map(lanes, x + i + j, y + i + j, [=](Vec v) {
          const Vec other = slope == 0.0f ? Vec{} : v * slope;
          return lanes_of(bits) != 0 ? v : other;
        });
      }
    }
  });
}

void add_to(int64_t n, const float* x, float* y) {
  for_each_range(n, 1, [=](int64_t first, int64_t last) {
    map(last - first, x + first, y + first, y + first, [](Vec a, Vec b) { return b + a; });
  });
}

}  // namespace daf::DAF_ISA
