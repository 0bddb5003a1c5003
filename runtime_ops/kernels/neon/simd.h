// Vectors of NEON on arm64: four floats.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace daf::neon {

inline constexpr int kWidth = 4;
using Vec = float __attribute__((vector_size(16)));
using IntVec = int32_t __attribute__((vector_size(16)));
using UnsignedVec = uint32_t __attribute__((vector_size(16)));
using WideVec = uint64_t __attribute__((vector_size(16)));

inline Vec fma(Vec a, Vec b, Vec c) {
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

inline Vec sqrt(Vec v) { return (Vec)vsqrtq_f32((float32x4_t)v); }

// Lanes whose mask is 0 are not read.
inline Vec load_masked(const float* p, IntVec mask) {
  Vec v = {};
  for (int i = 0; i < kWidth; ++i) {
    if (mask[i] != 0) v[i] = p[i];
  }
  return v;
}

// Lanes whose mask is 0 are not written.
inline void store_masked(float* p, Vec v, IntVec mask) {
  for (int i = 0; i < kWidth; ++i) {
    if (mask[i] != 0) p[i] = v[i];
  }
}

// Bit i: lane i of the mask, whose lanes are all ones or all zeros.
inline uint32_t lane_bits(IntVec mask) {
  const uint32x4_t bits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32((uint32x4_t)mask, bits));
}

// p[0], p[2], p[4], p[6]; nothing beyond is read.
inline Vec load_even(const float* p) {
  const float32x4_t low = vld1q_f32(p), high = vld1q_f32(p + 3);
  return (Vec)vcombine_f32(vget_low_f32(vuzp1q_f32(low, low)),
                           vget_low_f32(vuzp2q_f32(high, high)));
}

// Products of the low halves of the lanes.
inline WideVec multiply_low(WideVec a, uint32_t b) {
  return (WideVec)vmull_n_u32(vmovn_u64((uint64x2_t)a), b);
}

// Lanes a[0] b[0] a[1] b[1] ... of 64 bits.
inline void interleave(WideVec a, WideVec b, IntVec (&result)[2]) {
  result[0] = (IntVec)WideVec{a[0], b[0]};
  result[1] = (IntVec)WideVec{a[1], b[1]};
}

// Row i, column j becomes row j, column i.
inline void transpose(Vec (&v)[kWidth]) {
  const float32x4x2_t low = vtrnq_f32((float32x4_t)v[0], (float32x4_t)v[1]);
  const float32x4x2_t high = vtrnq_f32((float32x4_t)v[2], (float32x4_t)v[3]);
  v[0] = (Vec)vcombine_f32(vget_low_f32(low.val[0]), vget_low_f32(high.val[0]));
  v[1] = (Vec)vcombine_f32(vget_low_f32(low.val[1]), vget_low_f32(high.val[1]));
  v[2] = (Vec)vcombine_f32(vget_high_f32(low.val[0]), vget_high_f32(high.val[0]));
  v[3] = (Vec)vcombine_f32(vget_high_f32(low.val[1]), vget_high_f32(high.val[1]));
}

}  // namespace daf::neon
