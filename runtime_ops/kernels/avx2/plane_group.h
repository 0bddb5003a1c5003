// One group of 256 values and its bit-planes, for AVX2. scalar/plane_group.h says plainly what each
// function computes.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/kernels.h"

namespace daf::DAF_ISA {

struct PlaneGroup256 {
  static bool find_range(const float* x, float* minimum, float* maximum) {
    // Two of each: the latency of one would not keep up with the loads.
    __m256 low[2], high[2], zero[2];
    for (int k = 0; k < 2; ++k) {
      low[k] = high[k] = _mm256_loadu_ps(x);
      zero[k] = _mm256_setzero_ps();
    }
#pragma GCC unroll 2  // not more: the registers would not do
    for (int i = 0; i < kPlaneGroup; i += 16) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const __m256 v = _mm256_loadu_ps(x + i + 8 * k);
        low[k] = _mm256_min_ps(low[k], v);
        high[k] = _mm256_max_ps(high[k], v);
        zero[k] =
            _mm256_fmadd_ps(v, _mm256_setzero_ps(), zero[k]);  // NaN once a value is not finite
      }
    }
    // The maximum of -x is found along with that of x.
    const __m256 both[2] = {_mm256_xor_ps(_mm256_min_ps(low[0], low[1]), _mm256_set1_ps(-0.0f)),
                            _mm256_max_ps(high[0], high[1])};
    __m256 m = _mm256_max_ps(_mm256_permute2f128_ps(both[0], both[1], 0x20),
                             _mm256_permute2f128_ps(both[0], both[1], 0x31));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0x4e));
    m = _mm256_max_ps(m, _mm256_permute_ps(m, 0xb1));
    *minimum = -_mm256_cvtss_f32(m);
    *maximum = _mm_cvtss_f32(_mm256_extractf128_ps(m, 1));
    const __m256 sum = _mm256_add_ps(zero[0], zero[1]);
    return _mm256_movemask_ps(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q)) == 0;
  }

  template <int kBits>
  static void pack(const float* x, float minimum, float inverse, const uint8_t* noise,
                   uint32_t* const* plane) {
    const __m256 offset = _mm256_set1_ps(minimum), factor = _mm256_set1_ps(inverse);
    const __m256i largest = _mm256_set1_epi8(static_cast<char>((1 << kBits) - 1));
    // Packing takes the halves of registers by turns; this undoes it, and does it to the noise.
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i by_turns = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int word = 0; word < 8; ++word, x += 32, noise += 32) {
      __m256i fixed[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m256 v = _mm256_loadu_ps(x + 8 * k);
        fixed[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_sub_ps(v, offset), factor));
      }
      const __m256i added = _mm256_permutevar8x32_epi32(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(noise)), by_turns);
      const __m256i zero = _mm256_setzero_si256();
      const __m256i low = _mm256_adds_epu16(_mm256_packus_epi32(fixed[0], fixed[1]),
                                            _mm256_unpacklo_epi8(added, zero));
      const __m256i high = _mm256_adds_epu16(_mm256_packus_epi32(fixed[2], fixed[3]),
                                             _mm256_unpackhi_epi8(added, zero));
      const __m256i codes =
          _mm256_packus_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8));
      __m256i bytes = _mm256_permutevar8x32_epi32(codes, in_order);
      bytes = _mm256_min_epu8(bytes, largest);
      bytes = _mm256_slli_epi16(bytes, 8 - kBits);  // the first plane's bit on top of each byte
#pragma GCC unroll 8
      for (int p = 0; p < kBits; ++p) {
        plane[p][word] = static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
        bytes = _mm256_add_epi8(bytes, bytes);
      }
    }
  }

  template <int kPlanes>
  static void unpack(const uint32_t* const* plane, float base, float step, bool around_caches,
                     float* y) {
    const __m256i zero = _mm256_setzero_si256();
    for_each_32<kPlanes>(plane, around_caches, y, [&](__m256i codes, auto store_at) {
      widen(base, step, _mm256_unpacklo_epi8(codes, zero), _mm256_unpackhi_epi8(codes, zero),
            store_at);
    });
  }

  template <int kPlanes>
  static void unpack_dithered(const uint32_t* const* plane, int n_missing, const uint8_t* noise,
                              float base, float step, bool around_caches, float* y) {
    const __m128i missing = _mm_cvtsi32_si128(n_missing);
    // 255 minus the noise, and how it goes on in the next 16 values: it is a lattice.
    const __m256i next = _mm256_set1_epi8(static_cast<char>(16 * (noise[1] - noise[0])));
    const __m256i first = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(noise + 128),
                                              reinterpret_cast<const __m128i*>(noise));
    __m256i below = _mm256_xor_si256(first, _mm256_set1_epi8(-1));
    for_each_32<kPlanes>(plane, around_caches, y, [&](__m256i codes, auto store_at) {
      if (kPlanes < kMaxPlanes) codes = _mm256_sll_epi16(codes, missing);
      widen(base, step, _mm256_unpacklo_epi8(below, codes), _mm256_unpackhi_epi8(below, codes),
            store_at);
      below = _mm256_sub_epi8(below, next);
    });
  }

  static void copy_around_caches(int64_t n_groups, const uint32_t* from, uint32_t* to) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(to) % sizeof(__m256i) == 0;
    for (int64_t g = 0; g < n_groups; ++g) {
      const __m256i group = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + g);
      __m256i* place = reinterpret_cast<__m256i*>(to) + g;
      is_aligned ? _mm256_stream_si256(place, group) : _mm256_storeu_si256(place, group);
    }
  }
  // After stores around the caches, before another thread may read.
  static void finish_stores() { _mm_sfence(); }

 private:
  // body(codes, store_at) for the codes, a byte each, of values i to i + 15 and, in the upper half,
  // 128 + i to 128 + i + 15. store_at(k, v) stores v from value i + k on.
  template <int kPlanes, class Body>
  static void for_each_32(const uint32_t* const* plane, bool around_caches, float* y, Body body) {
    __m256i codes[8];
    codes_of<kPlanes>(plane, codes);
    const bool is_aligned = reinterpret_cast<uintptr_t>(y) % sizeof(__m256) == 0;
    if (around_caches && is_aligned) {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        body(codes[i], [&](int k, __m256 v) { _mm256_stream_ps(y + 16 * i + k, v); });
      }
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        body(codes[i], [&](int k, __m256 v) { _mm256_storeu_ps(y + 16 * i + k, v); });
      }
    }
  }

  // From codes of 16 bits: values 0-7 and 128-135, then 8-15 and 136-143.
  template <class StoreAt>
  static void widen(float base, float step, __m256i low, __m256i high, StoreAt store_at) {
    const __m256 offset = _mm256_set1_ps(base), factor = _mm256_set1_ps(step);
    const auto store_eight = [&](int k, __m128i codes) {
      // The product is exact: fused or not, the sum is the same.
      const __m256 code = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(codes));
      store_at(k, _mm256_fmadd_ps(factor, code, offset));
    };
    store_eight(0, _mm256_castsi256_si128(low));
    store_eight(8, _mm256_castsi256_si128(high));
    store_eight(128, _mm256_extracti128_si256(low, 1));
    store_eight(136, _mm256_extracti128_si256(high, 1));
  }

  // Planes are rows of bits of codes, the least significant first; those that there are not are
  // zero, and what they would do is left out by the compiler. In every byte of the eight rows, 8 x
  // 8 bits are transposed: row k then has the codes of values k, 8 + k, 16 + k, ...
  using Row = uint64_t __attribute__((vector_size(32)));

  template <int kPlanes>
  static void codes_of(const uint32_t* const* plane, __m256i* codes) {
    Row row[8] = {};
#pragma GCC unroll 8
    for (int p = 0; p < kPlanes; ++p) std::memcpy(&row[kPlanes - 1 - p], plane[p], sizeof(Row));
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) swap_bits<1>(row[i], row[i + 1], 0x5555555555555555);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      swap_bits<2>(row[i / 2 * 4 + i % 2], row[i / 2 * 4 + i % 2 + 2], 0x3333333333333333);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) swap_bits<4>(row[i], row[i + 4], 0x0f0f0f0f0f0f0f0f);
    // Then bytes: two rows, four and eight beside each other.
    __m256i two[8], four[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto a = reinterpret_cast<__m256i>(row[2 * i]);
      const auto b = reinterpret_cast<__m256i>(row[2 * i + 1]);
      two[i] = _mm256_unpacklo_epi8(a, b);
      two[i + 4] = _mm256_unpackhi_epi8(a, b);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4;
         ++i) {  // values from 64 * (i / 2) on; rows 4 * (i % 2) to 4 * (i % 2) + 3
      four[i] = _mm256_unpacklo_epi16(two[i / 2 * 4 + i % 2 * 2], two[i / 2 * 4 + i % 2 * 2 + 1]);
      four[i + 4] =
          _mm256_unpackhi_epi16(two[i / 2 * 4 + i % 2 * 2], two[i / 2 * 4 + i % 2 * 2 + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int from = i / 2 * 2 + i % 2 * 4;
      codes[2 * i] = _mm256_unpacklo_epi32(four[from], four[from + 1]);
      codes[2 * i + 1] = _mm256_unpackhi_epi32(four[from], four[from + 1]);
    }
  }

  // Swaps the bits of b that `mask` has with those kDistance above them in a.
  template <int kDistance>
  static void swap_bits(Row& a, Row& b, uint64_t mask) {
    const Row differ = ((a >> kDistance) ^ b) & mask;
    b ^= differ;
    a ^= differ << kDistance;
  }
};

}  // namespace daf::DAF_ISA
