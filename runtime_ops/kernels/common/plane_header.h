// The header of values in few bits: see kernels.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct Header {
  float minimum, scale;
  bool is_exact;

  static Header of(uint32_t header) {
    return {float_of_bits(header << 16), float_of_bits(header & 0xffff0000),
            (header & kExactGroup) != 0};
  }

  // Below this, 2^16 / scale would overflow. What it cannot resolve is smaller than 2^-110.
  static constexpr float kSmallestScale = 0x1p-110f;

  // Without branches: the compiler makes several at once. A maximum of infinity marks the group.
  static Header of_range(float minimum, float maximum, int bits) {
    // bfloat16 is the upper half of a float. Towards -inf is up in magnitude for a negative number.
    // Adding 0 makes a zero positive: which one is found first varies, and the sign marks a group.
    const uint32_t m = bits_of_float(minimum + 0.0f);
    const uint32_t up_if_negative = static_cast<uint32_t>(static_cast<int32_t>(m) >> 31) & 0xffff;
    const float rounded_minimum = float_of_bits((m + up_if_negative) & 0xffff0000);
    const float last_code = static_cast<float>((1 << std::max(bits, 1)) - 1);
    const float exact_scale = (maximum - rounded_minimum) / last_code + 0.0f;
    const float large_enough = exact_scale < kSmallestScale ? kSmallestScale : exact_scale;
    const float some_scale = exact_scale > 0 ? large_enough : exact_scale;
    const float scale = float_of_bits((bits_of_float(some_scale) + 0xffff) & 0xffff0000);
    const uint32_t largest = bits_of_float(rounded_minimum + scale * last_code);
    constexpr uint32_t kInfinity = 0x7f800000;
    return {rounded_minimum, scale, (largest & kInfinity) == kInfinity};
  }

  // From values to codes with 8 fractional bits.
  float inverse() const { return scale > 0 ? 0x1p8f / scale : 0; }

  uint32_t packed() const {
    return is_exact ? kExactGroup : bits_of_float(scale) | bits_of_float(minimum) >> 16;
  }

  // With the first n of the `bits` planes that were made, a value is base() + step() * code.
  float step(int bits, int n_planes) const { return scale * width(bits, n_planes); }
  float base(int bits, int n_planes) const {
    return minimum + scale * ((width(bits, n_planes) - 1) / 2);
  }
  // Dithered, it is dithered_base() + dithered_step() * (code, the missing planes as zeros, and 255
  // minus the noise below it). All products are exact, fused with an addition or not.
  float dithered_step() const { return scale * 0x1p-8f; }
  float dithered_base(int bits, int n_planes) const {
    return minimum + scale * ((width(bits, n_planes) - 1) / 2 - 127.5f / 256);
  }

 private:
  // Of a missing part, in steps.
  static float width(int bits, int n_planes) {
    return static_cast<float>(1 << (std::max(bits, 1) - n_planes));
  }
};

}  // namespace daf::DAF_ISA
