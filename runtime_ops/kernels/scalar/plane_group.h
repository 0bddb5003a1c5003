// One group of 256 values and its bit-planes, as plainly as it can be said: what kernels.h calls a
// code. The other instruction sets give the same bits, so nothing here may be contracted to a fused
// multiply-add (see CMakeLists.txt).
#pragma once

#include <algorithm>
#include <cmath>
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

  // `inverse` is 2^8 / scale: codes are made with 8 fractional bits, `noise` has as many.
  template <int kBits>
  static void pack(const float* x, float minimum, float inverse, const uint8_t* noise,
                   uint32_t* const* plane) {
    constexpr uint32_t kLargest = (1u << kBits) - 1;
    for (int word = 0; word < 8; ++word, x += 32, noise += 32) {
      uint32_t bits[kMaxPlanes] = {};
      for (int i = 0; i < 32; ++i) {
        const auto fixed = static_cast<uint32_t>(std::lrint((x[i] - minimum) * inverse));
        const uint32_t code = (fixed + noise[i]) >> 8;
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
      y[i] = base + step * static_cast<float>(code_of<kPlanes>(plane, i));
    }
  }

  // y = base + step * (the code with n_missing zeros behind it, and 255 - noise below)
  template <int kPlanes>
  static void unpack_dithered(const uint32_t* const* plane, int n_missing, const uint8_t* noise,
                              float base, float step, bool /*around_caches*/, float* y) {
    for (int i = 0; i < kPlaneGroup; ++i) {
      const uint32_t code = code_of<kPlanes>(plane, i) << n_missing;
      y[i] = base + step * static_cast<float>(code << 8 | (255u - noise[i]));
    }
  }

  static void copy_around_caches(int64_t n_groups, const uint32_t* from, uint32_t* to) {
    std::copy_n(from, n_groups * (kPlaneGroupBytes / 4), to);
  }
  static void finish_stores() {}

 private:
  template <int kPlanes>
  static uint32_t code_of(const uint32_t* const* plane, int i) {
    uint32_t code = 0;
    for (int p = 0; p < kPlanes; ++p) code = 2 * code + (plane[p][i / 32] >> (i % 32) & 1);
    return code;
  }
};

}  // namespace daf::scalar
