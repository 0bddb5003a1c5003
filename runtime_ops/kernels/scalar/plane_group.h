// One group of 256 values and its bit-planes, as plainly as it can be said: what kernels.h calls a
// code, and where its random numbers come from. The other instruction sets give the same bits, so
// nothing here may be contracted to a fused multiply-add (see CMakeLists.txt).
//
// Random numbers: sixteen lanes of a linear congruential generator, started by a hash of the
// group's key. The values are taken 32 at a time, one word of each plane; each time every lane
// takes one step, lane l gives value l its low half and value 16 + l its high half.
#pragma once

#include <cstdint>

#include "runtime_ops/kernels/kernels.h"

namespace daf::scalar {

struct PlaneGroup {
  // False when a value is not finite; then minimum and maximum say nothing.
  static bool find_range(const float* x, float* minimum, float* maximum) {
    *minimum = *maximum = x[0];
    float zero = 0;
    for (int i = 0; i < kPlaneGroup; ++i) {
      *minimum = x[i] < *minimum ? x[i] : *minimum;
      *maximum = x[i] > *maximum ? x[i] : *maximum;
      zero += x[i] * 0.0f;  // NaN once a value is not finite
    }
    return zero == 0;
  }

  // `inverse` is 2^16 / scale: codes are made with 16 fractional bits.
  template <int kBits>
  static void pack(const float* x, float minimum, float inverse, uint64_t key,
                   uint32_t* const* plane) {
    constexpr uint32_t kLargest = (1u << kBits) - 1;
    uint32_t random[16];
    for (uint32_t lane = 0; lane < 16; ++lane) random[lane] = first_random(key, lane);
    for (int word = 0; word < 8; ++word) {
      for (uint32_t& state : random) state = next_random(state);
      uint32_t bits[kMaxPlanes] = {};
      for (int i = 0; i < 32; ++i) {
        const uint32_t sixteen_bits = i < 16 ? random[i] & 0xffff : random[i - 16] >> 16;
        const int32_t fixed = static_cast<int32_t>((x[32 * word + i] - minimum) * inverse);
        const uint32_t code = (static_cast<uint32_t>(fixed) + sixteen_bits) >> 16;
        const uint32_t kept = code < kLargest ? code : kLargest;  // rounding may go one beyond
        for (int p = 0; p < kBits; ++p) bits[p] |= (kept >> (kBits - 1 - p) & 1) << i;
      }
      for (int p = 0; p < kBits; ++p) plane[p][word] = bits[p];
    }
  }

  // y = base + step * (the code that the first kPlanes planes say)
  template <int kPlanes>
  static void unpack(const uint32_t* const* plane, float base, float step, bool /*around_caches*/,
                     float* y) {
    for (int i = 0; i < kPlaneGroup; ++i) {
      int32_t code = 0;
      for (int p = 0; p < kPlanes; ++p) code = 2 * code + (plane[p][i / 32] >> (i % 32) & 1);
      y[i] = base + step * static_cast<float>(code);
    }
  }

  static void finish_stores() {}

 private:
  static uint32_t first_random(uint64_t key, uint32_t lane) {
    uint32_t s = static_cast<uint32_t>(key) + lane * 0x9e3779b9;
    s ^= s >> 16;
    s *= 0x7feb352d;
    s ^= s >> 15;
    s += static_cast<uint32_t>(key >> 32);
    s *= 0x846ca68b;
    return s ^ s >> 16;
  }

  static uint32_t next_random(uint32_t s) { return s * 0x915f77f5 + 0x3c6ef35f; }
};

}  // namespace daf::scalar
