// One group of 256 values and its bit-planes, for AVX2. scalar/plane_group.h says plainly what each
// function computes.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/avx2/simd.h"
#include "runtime_ops/kernels/kernels.h"

namespace daf::avx2 {

struct PlaneGroup {
  static bool find_range(const float* x, float* minimum, float* maximum) {
    // Two of each: the latency of one would not keep up with the loads.
    __m256 low[2], high[2], zero[2];
    for (int k = 0; k < 2; ++k) {
      low[k] = high[k] = _mm256_loadu_ps(x);
      zero[k] = _mm256_setzero_ps();
    }
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
      const __m256i added = _mm256_permutevar8x32_epi32(load(noise), by_turns);
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

  // In two loops: the codes have registers to themselves, and come back widened by the load.
  template <int kPlanes>
  static void unpack(const uint32_t* const* plane, float base, float step, bool around_caches,
                     float* y) {
    alignas(32) uint8_t codes[kPlaneGroup];
    for_each_word<kPlanes>(plane,
                           [&](int word, __m256i bytes) { store(codes + 32 * word, bytes); });
    widen(base, step, around_caches, y, [&](int i) {
      return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i)));
    });
  }

  template <int kPlanes>
  static void unpack_dithered(const uint32_t* const* plane, int n_missing, const uint8_t* noise,
                              float base, float step, bool around_caches, float* y) {
    alignas(32) uint16_t codes[kPlaneGroup];
    const __m128i missing = _mm_cvtsi32_si128(n_missing);
    const __m256i ones = _mm256_set1_epi8(-1);
    for_each_word<kPlanes>(plane, [&](int word, __m256i bytes) {
      // Halves of 64 bits, as interleaving needs them to leave its result in order.
      const __m256i below = in_halves(_mm256_xor_si256(load(noise + 32 * word), ones));
      const __m256i code = in_halves(_mm256_sll_epi16(bytes, missing));
      store(codes + 32 * word, _mm256_unpacklo_epi8(below, code));
      store(codes + 32 * word + 16, _mm256_unpackhi_epi8(below, code));
    });
    widen(base, step, around_caches, y, [&](int i) {
      return _mm256_cvtepu16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(codes + i)));
    });
  }

  // After stores around the caches, before another thread may read.
  static void finish_stores() { _mm_sfence(); }

 private:
  static __m256i load(const uint8_t* x) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  }
  static void store(void* x, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(x), v); }
  static __m256i in_halves(__m256i v) { return _mm256_permute4x64_epi64(v, 0xd8); }

  // body(word, codes): of 32 values each time.
  template <int kPlanes, class Body>
  static void for_each_word(const uint32_t* const* plane, Body body) {
    if constexpr (kPlanes <= 6) {
      for (int word = 0; word < 8; ++word) body(word, add_bits<kPlanes>(plane, word));
    } else {
      constexpr int kMissing = 8 - kPlanes;
      Vec words[8] = {};
#pragma GCC unroll 8
      for (int p = kMissing; p < 8; ++p) std::memcpy(&words[p], plane[p - kMissing], 32);
      transpose(words);
#pragma GCC unroll 8
      for (int word = 0; word < 8; ++word) {
        body(word, transpose_bits(_mm256_castps_si256(words[word])));
      }
    }
  }

  // codes(i): of values i to i + 7.
  template <class Codes>
  static void widen(float base, float step, bool around_caches, float* y, Codes codes) {
    const __m256 offset = _mm256_set1_ps(base), factor = _mm256_set1_ps(step);
    const auto value = [&](int i) {
      return _mm256_add_ps(offset, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(codes(i))));
    };
    const bool is_aligned = reinterpret_cast<uintptr_t>(y) % sizeof(__m256) == 0;
    if (around_caches && is_aligned) {
#pragma GCC unroll 4
      for (int i = 0; i < kPlaneGroup; i += 8) _mm256_stream_ps(y + i, value(i));
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kPlaneGroup; i += 8) _mm256_storeu_ps(y + i, value(i));
    }
  }

  // The codes of 32 values, a byte each.
  template <int kPlanes>
  static __m256i add_bits(const uint32_t* const* plane, int word) {
    const __m256i byte_of_word =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of_byte = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    __m256i codes = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int p = 0; p < kPlanes; ++p) {
      const __m256i words = _mm256_set1_epi32(static_cast<int32_t>(plane[p][word]));
      const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8(words, byte_of_word), bit_of_byte);
      const __m256i is_set = _mm256_cmpeq_epi8(bits, bit_of_byte);  // -1 where it is
      codes = _mm256_sub_epi8(_mm256_add_epi8(codes, codes), is_set);
    }
    return codes;
  }

  // The same from one word of each of eight planes, the most significant first.
  static __m256i transpose_bits(__m256i words) {
    // Byte j of each word together, the least significant plane first: 8 x 8 bits in each 64.
    const __m256i bytes_together =
        _mm256_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3, 12, 8, 4, 0, 13, 9,
                         5, 1, 14, 10, 6, 2, 15, 11, 7, 3);
    const __m256i halves_together = _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3);
    __m256i v =
        _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(words, bytes_together), halves_together);
    v = swap_bits<7>(v, 0x00aa00aa00aa00aa);
    v = swap_bits<14>(v, 0x0000cccc0000cccc);
    return swap_bits<28>(v, 0x00000000f0f0f0f0);
  }

  // Swaps the bits of `mask` with those kDistance above them.
  template <int kDistance>
  static __m256i swap_bits(__m256i v, int64_t mask) {
    const __m256i differ = _mm256_and_si256(_mm256_xor_si256(v, _mm256_srli_epi64(v, kDistance)),
                                            _mm256_set1_epi64x(mask));
    return _mm256_xor_si256(_mm256_xor_si256(v, differ), _mm256_slli_epi64(differ, kDistance));
  }
};

}  // namespace daf::avx2
