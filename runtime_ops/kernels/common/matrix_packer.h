// Packers and the writer of matrices that lie in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime_ops/kernels/common/gemm_driver.h"

namespace daf::DAF_ISA {

// panel[p][i] = rows[i][p] for kSize rows: each lies in a run, and squares of them are transposed
// in registers. `load_row(i, p)` gives kWidth elements of a row. Writes up to kWidth floats beyond
// `depth` rows of the panel, unless kSize is whole vectors.
template <int kSize, class LoadRow>
void pack_transposed(int64_t depth, LoadRow load_row, float* panel) {
  for (int64_t p = 0; p < depth; p += kWidth) {
    const int64_t count = std::min<int64_t>(kWidth, depth - p);
    for (int i0 = 0; i0 < kSize; i0 += kWidth) {
      Vec square[kWidth];
      for (int i = 0; i < kWidth; ++i) {
        square[i] = i0 + i < kSize ? load_row(i0 + i, p, count) : Vec{};
      }
      transpose(square);
      float* out = panel + p * kSize + i0;
      if (count == kWidth) {
        for (int i = 0; i < kWidth; ++i) store(out + i * kSize, square[i]);
      } else {
        for (int i = 0; i < count; ++i) store(out + i * kSize, square[i]);
      }
    }
  }
}

// Element (i, p) is base[i * stride + p * depth_stride]. Serves A and B, transposed or not; one of
// the strides is usually 1.
struct MatrixPacker {
  const float* base;
  int64_t stride, depth_stride;

  template <int kSize>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    const float* source = base + first * stride + p0 * depth_stride;
    if (depth_stride == 1) {
      const float* row[kSize];
      for (int i = 0; i < kSize; ++i) row[i] = source + std::min<int64_t>(i, count - 1) * stride;
      pack_transposed<kSize>(
          depth,
          [&](int i, int64_t p, int64_t n) {
            return n == kWidth ? load(row[i] + p) : load_part(row[i] + p, n);
          },
          panel);
    } else if (stride == 1 && count == kSize) {
      for (int64_t p = 0; p < depth; ++p, source += depth_stride, panel += kSize) {
        std::memcpy(panel, source, kSize * sizeof(float));
      }
    } else {
      for (int64_t p = 0; p < depth; ++p, source += depth_stride, panel += kSize) {
        for (int64_t i = 0; i < kSize; ++i) panel[i] = i < count ? source[i * stride] : 0.0f;
      }
    }
  }
};

// C as a matrix.
struct MatrixWriter {
  float* c;
  int64_t ldc;
  GemmTerms terms = {};

  struct Panel {
    Direct direct;
    int64_t columns;

    void operator()(int64_t i, int64_t rows, const float* tile, Part part) const {
      for (int64_t r = 0; r < rows; ++r, tile += kNr) {
        float* out = direct.c + (i + r) * direct.ld;
        for (int64_t s = 0; s < columns; s += kWidth) {
          const int64_t count = std::min<int64_t>(kWidth, columns - s);
          Vec v = load(tile + s) * direct.alpha;
          if (!part.first) {
            v += load_part(out + s, count);
          } else {
            if (direct.column_bias != nullptr) v += load_part(direct.column_bias + s, count);
            if (direct.addend != nullptr) {
              v += load_part(direct.addend + (i + r) * direct.ld + s, count);
            }
          }
          if (part.last) v = clamp(v, direct.low, direct.high);
          store_part(out + s, v, count);
        }
      }
    }
  };

  template <int kNr>
  Panel panel(int64_t j, int64_t columns) const {
    const auto from = [j](const float* row) { return row != nullptr ? row + j : nullptr; };
    return {{c + j, ldc, terms.alpha, nullptr, from(terms.bias), from(terms.addend), terms.low,
             terms.high},
            columns};
  }
};

}  // namespace daf::DAF_ISA
