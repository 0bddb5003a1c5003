// Vectors of the portable kernels: what GCC and Clang make of four floats on any target.
#pragma once

#include <cmath>
#include <cstdint>

namespace daf::scalar {

inline constexpr int kWidth = 4;
using Vec = float __attribute__((vector_size(16)));
using IntVec = int32_t __attribute__((vector_size(16)));
using UnsignedVec = uint32_t __attribute__((vector_size(16)));
using WideVec = uint64_t __attribute__((vector_size(16)));

inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }

inline Vec sqrt(Vec v) {
  for (int i = 0; i < kWidth; ++i) v[i] = std::sqrt(v[i]);
  return v;
}

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
  uint32_t bits = 0;
  for (int i = 0; i < kWidth; ++i) bits |= (mask[i] != 0 ? 1u : 0u) << i;
  return bits;
}

// p[0], p[2], p[4], p[6]; nothing beyond is read.
inline Vec load_even(const float* p) { return Vec{p[0], p[2], p[4], p[6]}; }

// Products of the low halves of the lanes.
inline WideVec multiply_low(WideVec a, uint32_t b) { return (a & 0xffffffff) * b; }

// Lanes a[0] b[0] a[1] b[1] ... of 64 bits.
inline void interleave(WideVec a, WideVec b, IntVec (&result)[2]) {
  result[0] = (IntVec)WideVec{a[0], b[0]};
  result[1] = (IntVec)WideVec{a[1], b[1]};
}

// Row i, column j becomes row j, column i.
inline void transpose(Vec (&v)[kWidth]) {
  const Vec a = {v[0][0], v[1][0], v[2][0], v[3][0]}, b = {v[0][1], v[1][1], v[2][1], v[3][1]};
  const Vec c = {v[0][2], v[1][2], v[2][2], v[3][2]}, d = {v[0][3], v[1][3], v[2][3], v[3][3]};
  v[0] = a, v[1] = b, v[2] = c, v[3] = d;
}

}  // namespace daf::scalar
