// Vectors of AVX2 with FMA: eight floats. Also those of AVX-512, which are compiled in its own
// namespace and differ in what the compiler makes of them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace daf::DAF_ISA {

inline constexpr int kWidth = 8;
using Vec = float __attribute__((vector_size(32)));
using IntVec = int32_t __attribute__((vector_size(32)));
using UnsignedVec = uint32_t __attribute__((vector_size(32)));
using WideVec = uint64_t __attribute__((vector_size(32)));

inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }

inline Vec sqrt(Vec v) { return _mm256_sqrt_ps(v); }

// Lanes whose mask is 0 are not read.
inline Vec load_masked(const float* p, IntVec mask) {
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask));
}

// Lanes whose mask is 0 are not written.
inline void store_masked(float* p, Vec v, IntVec mask) {
  _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(mask), v);
}

// Bit i: lane i of the mask, whose lanes are all ones or all zeros.
inline uint32_t lane_bits(IntVec mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
}

// p[0], p[2] ... p[14]; nothing beyond is read.
inline Vec load_even(const float* p) {
  const __m256 low = _mm256_loadu_ps(p), high = _mm256_loadu_ps(p + 7);
  const __m256 mixed = _mm256_shuffle_ps(low, high, 0xd8);  // 0 2 8 10 | 4 6 12 14
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

// Products of the low halves of the lanes.
inline WideVec multiply_low(WideVec a, uint32_t b) {
  return (WideVec)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
}

// Lanes a[0] b[0] a[1] b[1] ... of 64 bits.
inline void interleave(WideVec a, WideVec b, IntVec (&result)[2]) {
  const __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b);  // a0 b0 | a2 b2
  const __m256i odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);   // a1 b1 | a3 b3
  result[0] = (IntVec)_mm256_permute2x128_si256(even, odd, 0x20);
  result[1] = (IntVec)_mm256_permute2x128_si256(even, odd, 0x31);
}

// Row i, column j becomes row j, column i.
inline void transpose(Vec (&v)[kWidth]) {
  __m256 pair[8], quad[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}

}  // namespace daf::DAF_ISA
