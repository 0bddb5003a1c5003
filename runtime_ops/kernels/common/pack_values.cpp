// Masks of one bit and bfloat16: what keeps a value in fewer bits without a group's header.
#include <algorithm>
#include <cstring>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kWordBits = 32;

// Bit i is lane i of the words' mask.
IntVec bit_of_lane() { return (IntVec{} + 1) << lane_numbers(); }

uint32_t or_lanes(IntVec v) {
  uint32_t bits = 0;
  for (int i = 0; i < kWidth; ++i) bits |= static_cast<uint32_t>(v[i]);
  return bits;
}

}  // namespace

void positive_mask(int64_t n, const float* x, uint32_t* mask) {
  for_each_range((n + kWordBits - 1) / kWordBits, kWordBits, [=](int64_t from, int64_t to) {
    for (int64_t word = from; word < to; ++word) {
      const float* values = x + word * kWordBits;
      const int64_t count = std::min(kWordBits, n - word * kWordBits);
      IntVec bits = {};
      for (int64_t i = 0; i < count; i += kWidth) {
        const Vec v = i + kWidth <= count ? load(values + i) : load_part(values + i, count - i);
        bits |= (v > 0.0f) & bit_of_lane() << static_cast<int32_t>(i);
      }
      mask[word] = or_lanes(bits);
    }
  });
}

void apply_mask(int64_t n, const uint32_t* mask, const float* x, float* y) {
  for_each_range((n + kWordBits - 1) / kWordBits, kWordBits, [=](int64_t from, int64_t to) {
    for (int64_t word = from; word < to; ++word) {
      const int64_t start = word * kWordBits, count = std::min(kWordBits, n - start);
      const IntVec bits = IntVec{} + static_cast<int32_t>(mask[word]);
      int64_t i = 0;
      const auto keep = [&](Vec v) {
        return from_bits(bits_of(v) & ((bits & bit_of_lane() << static_cast<int32_t>(i)) != 0));
      };
      for (; i + kWidth <= count; i += kWidth) store(y + start + i, keep(load(x + start + i)));
      if (i < count) {
        store_part(y + start + i, keep(load_part(x + start + i, count - i)), count - i);
      }
    }
  });
}

void to_bfloat16(int64_t n, const float* x, uint16_t* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      uint32_t bits;
      std::memcpy(&bits, x + i, sizeof(bits));
      const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
      // A NaN must not be rounded to infinity or around to zero.
      const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
      y[i] = static_cast<uint16_t>((is_nan ? bits | 0x00400000 : rounded) >> 16);
    }
  });
}

void from_bfloat16(int64_t n, const uint16_t* x, float* y) {
  for_each_range(n, 1, [=](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const uint32_t bits = uint32_t{x[i]} << 16;
      std::memcpy(y + i, &bits, sizeof(bits));
    }
  });
}

}  // namespace daf::DAF_ISA
