// One group of 256 values and its bit-planes, for NEON. scalar/plane_group.h says plainly what each
// function computes.
#pragma once

#include <arm_neon.h>

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
  static void pack(const float* x, float minimum, float inverse, uint64_t key,
                   uint32_t* const* plane) {
    const float32x4_t offset = vdupq_n_f32(minimum), factor = vdupq_n_f32(inverse);
    const uint8x16_t largest = vdupq_n_u8((1 << kBits) - 1);
    uint32x4_t random[4];
    for (uint32_t k = 0; k < 4; ++k) random[k] = first_random(key, 4 * k);
    for (int word = 0; word < 8; ++word, x += 32) {
      uint16x4_t low[4], high[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        random[k] = next_random(random[k]);
        low[k] = quantize(vld1q_f32(x + 4 * k), offset, factor,
                          vandq_u32(random[k], vdupq_n_u32(0xffff)));
        high[k] = quantize(vld1q_f32(x + 4 * k + 16), offset, factor, vshrq_n_u32(random[k], 16));
      }
      const uint8x16_t codes[2] = {vminq_u8(narrow(low), largest), vminq_u8(narrow(high), largest)};
#pragma GCC unroll 8
      for (int p = 0; p < kBits; ++p) plane[p][word] = word_of_bit(codes, kBits - 1 - p);
    }
  }

  template <int kPlanes>
  static void unpack(const uint32_t* const* plane, float base, float step, bool /*around_caches*/,
                     float* y) {
    const float32x4_t offset = vdupq_n_f32(base), factor = vdupq_n_f32(step);
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
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k, y += 16) {
        const uint16x8_t low = vmovl_u8(vget_low_u8(codes[k])), high = vmovl_high_u8(codes[k]);
        const uint32x4_t code[4] = {vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low),
                                    vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)};
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          vst1q_f32(y + 4 * i, vaddq_f32(offset, vmulq_f32(factor, vcvtq_f32_u32(code[i]))));
        }
      }
    }
  }

  static void finish_stores() {}

 private:
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

  static uint8x16_t narrow(const uint16x4_t (&codes)[4]) {
    return vcombine_u8(vqmovn_u16(vcombine_u16(codes[0], codes[1])),
                       vqmovn_u16(vcombine_u16(codes[2], codes[3])));
  }

  // Of lanes first_lane to first_lane + 3.
  static uint32x4_t first_random(uint64_t key, uint32_t first_lane) {
    const uint32x4_t lane = {first_lane, first_lane + 1, first_lane + 2, first_lane + 3};
    uint32x4_t s = vmlaq_n_u32(vdupq_n_u32(static_cast<uint32_t>(key)), lane, 0x9e3779b9);
    s = veorq_u32(s, vshrq_n_u32(s, 16));
    s = vmulq_n_u32(s, 0x7feb352d);
    s = veorq_u32(s, vshrq_n_u32(s, 15));
    s = vaddq_u32(s, vdupq_n_u32(static_cast<uint32_t>(key >> 32)));
    s = vmulq_n_u32(s, 0x846ca68b);
    return veorq_u32(s, vshrq_n_u32(s, 16));
  }

  static uint32x4_t next_random(uint32x4_t s) {
    return vmlaq_n_u32(vdupq_n_u32(0x3c6ef35f), s, 0x915f77f5);
  }

  static uint16x4_t quantize(float32x4_t x, float32x4_t minimum, float32x4_t inverse,
                             uint32x4_t random) {
    const int32x4_t fixed = vcvtq_s32_f32(vmulq_f32(vsubq_f32(x, minimum), inverse));
    return vshrn_n_u32(vaddq_u32(vreinterpretq_u32_s32(fixed), random), 16);
  }
};

}  // namespace daf::neon
