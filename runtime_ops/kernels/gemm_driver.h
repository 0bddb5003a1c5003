// The blocked matrix product every dense kernel is built on: C[m,n] = A[m,k] B[k,n].
//
// The driver knows nothing about where A and B come from or where C goes:
//
//   Micro   multiplies one packed panel of A by one of B: constants kMr, kNr and
//             static void run(int64_t depth, const float* a, const float* b, float* tile)
//           with a[depth][kMr], b[depth][kNr] and tile[kMr][kNr].
//   packer  fills a panel from `count` rows of A (or columns of B); what it puts beyond `count`
//           is dropped:
//             template <int kWidth> void pack(int64_t first, int64_t count, int64_t p0,
//                                             int64_t depth, float* panel) const
//           with panel[depth][kWidth].
//   writer  takes finished tiles, a panel of columns at a time:
//             template <int kNr> auto panel(int64_t j, int64_t columns) const
//           gives a function (int64_t i, int64_t rows, const float* tile, bool first) for the
//           tiles at columns j, of which rows x columns are real; `first` is false when the tile
//           is a further part of the sum over k.
//
// Sums over k run upwards within a block of kKc and block after block: the order, and so every
// bit of the result, depends on nothing but k.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/kernels.h"

namespace daf {

// Blocks: a panel of B (kKc x kNr) stays in L1, a block of A (kMc x kKc) in L2.
inline constexpr int64_t kMc = 96, kKc = 256, kNc = 256;

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The packed blocks; at most (kMc + kNc) * kKc floats whatever the product. Taken once per
// kernel call, because scratch is not given back between the groups of a convolution.
template <class Micro>
struct GemmPanels {
  static_assert(kMc % Micro::kMr == 0 && kNc % Micro::kNr == 0, "blocks are whole panels");

  GemmPanels(int64_t m, int64_t n, int64_t k, Scratch& scratch)
      : a(scratch.take<float>(std::min(kMc, round_up(m, Micro::kMr)) * std::min(kKc, k))),
        b(scratch.take<float>(std::min(kNc, round_up(n, Micro::kNr)) * std::min(kKc, k))) {}

  float* a;
  float* b;
};

template <int kWidth, class Packer>
void pack_block(const Packer& packer, int64_t first, int64_t count, int64_t p0, int64_t depth,
                float* block) {
  for (int64_t i = 0; i < count; i += kWidth) {
    packer.template pack<kWidth>(first + i, std::min<int64_t>(kWidth, count - i), p0, depth,
                                 block + i * depth);
  }
}

template <class Micro, class PackA, class PackB, class Writer>
void blocked_gemm(int64_t m, int64_t n, int64_t k, const PackA& pack_a, const PackB& pack_b,
                  const Writer& writer, const GemmPanels<Micro>& panels) {
  constexpr int kMr = Micro::kMr, kNr = Micro::kNr;
  alignas(64) float tile[kMr * kNr];
  for (int64_t j0 = 0; j0 < n; j0 += kNc) {
    const int64_t nc = std::min(kNc, n - j0);
    int64_t p0 = 0;
    do {  // once even for k = 0: C is then zero, and the writer adds its bias
      const int64_t depth = std::min(kKc, k - p0);
      pack_block<kNr>(pack_b, j0, nc, p0, depth, panels.b);
      for (int64_t i0 = 0; i0 < m; i0 += kMc) {
        const int64_t mc = std::min(kMc, m - i0);
        pack_block<kMr>(pack_a, i0, mc, p0, depth, panels.a);
        for (int64_t j = 0; j < nc; j += kNr) {
          const auto write = writer.template panel<kNr>(j0 + j, std::min<int64_t>(kNr, nc - j));
          for (int64_t i = 0; i < mc; i += kMr) {
            Micro::run(depth, panels.a + i * depth, panels.b + j * depth, tile);
            write(i0 + i, std::min<int64_t>(kMr, mc - i), tile, p0 == 0);
          }
        }
      }
      p0 += kKc;
    } while (p0 < k);
  }
}

// Packs a matrix that lies in memory: element (i, p) is base[i * stride + p * depth_stride].
// Serves A and B, transposed or not; one of the strides is usually 1.
struct MatrixPacker {
  const float* base;
  int64_t stride, depth_stride;

  template <int kWidth>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    const float* source = base + first * stride + p0 * depth_stride;
    if (count < kWidth) std::fill(panel, panel + depth * kWidth, 0.0f);
    if (count == kWidth && stride == 1) {
      for (int64_t p = 0; p < depth; ++p, source += depth_stride, panel += kWidth) {
        for (int i = 0; i < kWidth; ++i) panel[i] = source[i];
      }
    } else if (count == kWidth && depth_stride == 1) {
      for (int64_t p = 0; p < depth; ++p, ++source, panel += kWidth) {
        for (int i = 0; i < kWidth; ++i) panel[i] = source[i * stride];
      }
    } else {
      for (int64_t p = 0; p < depth; ++p, source += depth_stride, panel += kWidth) {
        for (int64_t i = 0; i < count; ++i) panel[i] = source[i * stride];
      }
    }
  }
};

// C as a matrix in memory; `bias` has an entry per column, or is null.
struct MatrixWriter {
  float* c;
  int64_t ldc;
  const float* bias;

  template <int kNr>
  auto panel(int64_t j, int64_t columns) const {
    return [=, *this](int64_t i, int64_t rows, const float* tile, bool first) {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        float* out = c + (i + r) * ldc + j;
        if (!first) {
          for (int64_t s = 0; s < columns; ++s) out[s] += tile[s];
        } else if (bias != nullptr) {
          for (int64_t s = 0; s < columns; ++s) out[s] = tile[s] + bias[j + s];
        } else {
          for (int64_t s = 0; s < columns; ++s) out[s] = tile[s];
        }
      }
    };
  }
};

}  // namespace daf
