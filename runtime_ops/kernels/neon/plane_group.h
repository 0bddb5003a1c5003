// One group of 256 values and its bit-planes, for NEON. scalar/plane_group.h says plainly what each
// function computes.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/kernels.h"

namespace daf::neon {

struct PlaneGroup {
  static bool find_range(const float* x, float* minimum, float* maximum) {
    // Four of each: the latency of one would not keep up with the loads.
    float32x4_t low[4], high[4], zero[4];
    for (int k = 0; k < 4; ++k) {
      low[k] = high[k] = vld1q_f32(x);
      zero[k] = vdupq_n_f32(0);
    }
    for (int i = 0; i < kPlaneGroup; i += 16) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const float32x4_t v = vld1q_f32(x + i + 4 * k);
        low[k] = vminq_f32(low[k], v);
        high[k] = vmaxq_f32(high[k], v);
        zero[k] = vfmaq_f32(zero[k], v, vdupq_n_f32(0));  // NaN once a value is not finite
      }
    }
    *minimum = vminvq_f32(vminq_f32(vminq_f32(low[0], low[1]), vminq_f32(low[2], low[3])));
    *maximum = vmaxvq_f32(vmaxq_f32(vmaxq_f32(high[0], high[1]), vmaxq_f32(high[2], high[3])));
    const float32x4_t sum = vaddq_f32(vaddq_f32(zero[0], zero[1]), vaddq_f32(zero[2], zero[3]));
    return vminvq_u32(vceqq_f32(sum, sum)) != 0;
  }

  template <int kBits>
  static void pack(const float* x, float minimum, float inverse, const uint8_t* noise,
                   uint32_t* const* plane) {
    const float32x4_t offset = vdupq_n_f32(minimum), factor = vdupq_n_f32(inverse);
    const uint8x16_t largest = vdupq_n_u8((1 << kBits) - 1);
    for (int word = 0; word < 8; ++word, x += 32, noise += 32) {
      uint8x8_t code[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const uint16x8_t fixed = vcombine_u16(quantize(vld1q_f32(x + 8 * k), offset, factor),
                                              quantize(vld1q_f32(x + 8 * k + 4), offset, factor));
        code[k] = vshrn_n_u16(vqaddq_u16(fixed, vmovl_u8(vld1_u8(noise + 8 * k))), 8);
      }
      const uint8x16_t codes[2] = {vminq_u8(vcombine_u8(code[0], code[1]), largest),
                                   vminq_u8(vcombine_u8(code[2], code[3]), largest)};
#pragma GCC unroll 8
      for (int p = 0; p < kBits; ++p) plane[p][word] = word_of_bit(codes, kBits - 1 - p);
    }
  }

  template <int kPlanes>
  static void unpack(const uint32_t* const* plane, float base, float step, bool /*around_caches*/,
                     float* y) {
    const float32x4_t offset = vdupq_n_f32(base), factor = vdupq_n_f32(step);
    for_each_16<kPlanes>(plane, [&](int i, uint8x16_t codes) {
      widen(vmovl_u8(vget_low_u8(codes)), offset, factor, y + i);
      widen(vmovl_high_u8(codes), offset, factor, y + i + 8);
    });
  }

  template <int kPlanes>
  static void unpack_dithered(const uint32_t* const* plane, int n_missing, const uint8_t* noise,
                              float base, float step, bool /*around_caches*/, float* y) {
    const float32x4_t offset = vdupq_n_f32(base), factor = vdupq_n_f32(step);
    const int8x16_t missing = vdupq_n_s8(static_cast<int8_t>(n_missing));
    for_each_16<kPlanes>(plane, [&](int i, uint8x16_t codes) {
      const uint8x16_t below = vmvnq_u8(vld1q_u8(noise + i)), code = vshlq_u8(codes, missing);
      widen(vreinterpretq_u16_u8(vzip1q_u8(below, code)), offset, factor, y + i);
      widen(vreinterpretq_u16_u8(vzip2q_u8(below, code)), offset, factor, y + i + 8);
    });
  }

  static void copy_around_caches(int64_t n_groups, const uint32_t* from, uint32_t* to) {
    std::copy_n(from, n_groups * (kPlaneGroupBytes / 4), to);
  }
  static void finish_stores() {}

 private:
  // body(first value, codes): of 16 values each time.
  template <int kPlanes, class Body>
  static void for_each_16(const uint32_t* const* plane, Body body) {
    const uint8x16_t byte_of_word[2] = {vcombine_u8(vdup_n_u8(0), vdup_n_u8(1)),
                                        vcombine_u8(vdup_n_u8(2), vdup_n_u8(3))};
    for (int word = 0; word < 8; ++word) {
      uint8x16_t codes[2] = {vdupq_n_u8(0), vdupq_n_u8(0)};
#pragma GCC unroll 8
      for (int p = 0; p < kPlanes; ++p) {
        const uint8x16_t words = vreinterpretq_u8_u32(vdupq_n_u32(plane[p][word]));
#pragma GCC unroll 2
        for (int k = 0; k < 2; ++k) {
          const uint8x16_t is_set = vtstq_u8(vqtbl1q_u8(words, byte_of_word[k]), bit_of_byte());
          codes[k] = vsubq_u8(vaddq_u8(codes[k], codes[k]), is_set);
        }
      }
      body(32 * word, codes[0]);
      body(32 * word + 16, codes[1]);
    }
  }

  static void widen(uint16x8_t codes, float32x4_t offset, float32x4_t factor, float* y) {
    const float32x4_t low = vcvtq_f32_u32(vmovl_u16(vget_low_u16(codes)));
    const float32x4_t high = vcvtq_f32_u32(vmovl_high_u16(codes));
    vst1q_f32(y, vaddq_f32(offset, vmulq_f32(factor, low)));
    vst1q_f32(y + 4, vaddq_f32(offset, vmulq_f32(factor, high)));
  }

  static uint8x16_t bit_of_byte() { return vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)); }

  // Bit b of the codes of 32 values.
  static uint32_t word_of_bit(const uint8x16_t (&codes)[2], int b) {
    const uint8x16_t bit = vdupq_n_u8(static_cast<uint8_t>(1 << b));
    const uint8x16_t first = vandq_u8(vtstq_u8(codes[0], bit), bit_of_byte());
    const uint8x16_t second = vandq_u8(vtstq_u8(codes[1], bit), bit_of_byte());
    uint8x16_t sums = vpaddq_u8(first, second);
    sums = vpaddq_u8(sums, sums);
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(sums), 0);
  }

  static uint16x4_t quantize(float32x4_t x, float32x4_t minimum, float32x4_t inverse) {
    return vqmovun_s32(vcvtnq_s32_f32(vmulq_f32(vsubq_f32(x, minimum), inverse)));
  }
};

}  // namespace daf::neon
