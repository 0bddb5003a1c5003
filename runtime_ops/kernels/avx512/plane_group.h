// One group of 256 values and its bit-planes, for AVX-512: planes are made from 64 values at a
// time. They are read as for AVX2, which is as fast as memory.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/avx2/plane_group.h"

namespace daf::DAF_ISA {

struct PlaneGroup : PlaneGroup256 {
  static bool find_range(const float* x, float* minimum, float* maximum) {
    __m512 low[2], high[2], zero[2];  // two of each, as for AVX2
    for (int k = 0; k < 2; ++k) {
      low[k] = high[k] = _mm512_loadu_ps(x);
      zero[k] = _mm512_setzero_ps();
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPlaneGroup; i += 32) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const __m512 v = _mm512_loadu_ps(x + i + 16 * k);
        low[k] = _mm512_min_ps(low[k], v);
        high[k] = _mm512_max_ps(high[k], v);
        zero[k] = _mm512_fmadd_ps(v, _mm512_setzero_ps(), zero[k]);
      }
    }
    *minimum = _mm512_reduce_min_ps(_mm512_min_ps(low[0], low[1]));
    *maximum = _mm512_reduce_max_ps(_mm512_max_ps(high[0], high[1]));
    const __m512 sum = _mm512_add_ps(zero[0], zero[1]);
    return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) == 0;
  }

  template <int kBits>
  static void pack(const float* x, float minimum, float inverse, const uint8_t* noise,
                   uint32_t* const* plane) {
    const __m512 offset = _mm512_set1_ps(minimum), factor = _mm512_set1_ps(inverse);
    const __m512i largest = _mm512_set1_epi8(static_cast<char>((1 << kBits) - 1));
    const __m512i zero = _mm512_setzero_si512();
    // Packing leaves the quarters of the registers turned; this turns them back, and the noise with
    // them: row i, column j of 4 x 4 words is row j, column i.
    const __m512i turned = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int word = 0; word < 8; word += 2, x += 64, noise += 64) {
      __m512i fixed[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m512 v = _mm512_loadu_ps(x + 16 * k);
        fixed[k] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_sub_ps(v, offset), factor));
      }
      const __m512i added = _mm512_permutexvar_epi32(turned, _mm512_loadu_si512(noise));
      const __m512i low = _mm512_adds_epu16(_mm512_packus_epi32(fixed[0], fixed[1]),
                                            _mm512_unpacklo_epi8(added, zero));
      const __m512i high = _mm512_adds_epu16(_mm512_packus_epi32(fixed[2], fixed[3]),
                                             _mm512_unpackhi_epi8(added, zero));
      const __m512i codes =
          _mm512_packus_epi16(_mm512_srli_epi16(low, 8), _mm512_srli_epi16(high, 8));
      const __m512i bytes = _mm512_min_epu8(_mm512_permutexvar_epi32(turned, codes), largest);
#pragma GCC unroll 8
      for (int p = 0; p < kBits; ++p) {
        const __m512i bit = _mm512_set1_epi8(static_cast<char>(1 << (kBits - 1 - p)));
        const uint64_t both = _mm512_test_epi8_mask(bytes, bit);
        std::memcpy(plane[p] + word, &both, sizeof(both));
      }
    }
  }
};

}  // namespace daf::DAF_ISA
