// The 36 matrix products of Winograd's convolution, one for each position of the transformed
// patches: C_t[m, n] = A_t[m, k] B_t[k, n]. They are made block by block, so that what a task has
// transformed stays in L2:
//
//   A  [position][panel of kMr rows][k][kMr]
//   B  [position][panel of kNr columns][k][kNr]
//   C  [panel of rows][panel of columns][position][kMr][kNr]
//
//   packer  transforms `count` rows of A (or columns of B) from `first` on, `depth` of k from k0:
//             void operator()(int64_t first, int64_t count, int64_t k0, int64_t depth,
//                             float* block, int64_t position_step) const
//           What lies beyond `count` is dropped. It may write kWidth floats beyond each position.
//   writer  transforms a finished block back, one tile of C at a time:
//             void operator()(int64_t i, int64_t rows, int64_t j, int64_t columns,
//                             const float* tile) const
//           `tile` is [position][kMr][kNr].
//
// Blocks, and so the order of every sum, depend on m, n and k alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/gemm_blocks.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/winograd_transforms.h"

namespace daf::DAF_ISA::winograd {

constexpr int64_t kMaxRows = 72, kMaxColumns = round_up(32, kNr);
constexpr int64_t kSlack = GemmPanels::kSlack;  // for what packers write beyond a position
constexpr int kTileFloats = kMr * kNr;
static_assert(kMaxRows % kMr == 0 && kMaxColumns % kNr == 0, "blocks are whole panels");

// Blocks of equal size, so that the last one is not a thin rest. Nothing is empty: winograd_pays().
inline int64_t even_step(int64_t size, int64_t largest, int64_t unit) {
  const int64_t n = (size + largest - 1) / largest;
  return round_up((size + n - 1) / n, unit);
}

struct Product {
  int64_t m, n, k;
  int64_t rows, columns, depth;  // of a block

  Product(int64_t m, int64_t n, int64_t k)
      : m(m),
        n(n),
        k(k),
        rows(even_step(m, kMaxRows, kMr)),
        columns(even_step(n, kMaxColumns, kNr)) {
    constexpr int64_t kBudget = kMaxPanelFloats / kPositions - 2 * kSlack;
    depth = even_step(k, (kBudget - rows * columns) / (rows + columns), 1);
  }
  int64_t n_rows() const { return (m + rows - 1) / rows; }
  int64_t n_tasks() const { return n_rows() * ((n + columns - 1) / columns); }
  int64_t a_step() const { return rows * depth + kSlack; }
  int64_t b_step() const { return columns * depth + kSlack; }
  int64_t c_floats() const { return kPositions * rows * columns; }
  int64_t floats() const { return kPositions * (a_step() + b_step()) + c_floats(); }
};

// One position of a block.
template <int kVecs>
inline __attribute__((always_inline)) void multiply_tile(int64_t depth, const float* a,
                                                         const float* b, bool first, float* c) {
  Vec sum[kMr][kVecs];
  MicroKernel::run<kMr, kVecs>(depth, a, b, sum);
#pragma GCC unroll 8
  for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVecs; ++j) {
      float* out = c + r * kNr + j * kWidth;
      store(out, first ? sum[r][j] : sum[r][j] + load(out));
    }
  }
}

template <class PackA, class PackB, class Write>
void multiply(const Product& s, const PackA& pack_a, const PackB& pack_b, const Write& write,
              Scratch& scratch) {
  constexpr int kVecs = kNr / kWidth, kHalf = (kVecs + 1) / 2;
  const int64_t n_workers = std::min<int64_t>(n_threads(), s.n_tasks());
  float* const memory = scratch.take<float>(static_cast<size_t>(n_workers * s.floats()));
  for_each_task(s.n_tasks(), [&](int64_t task, int worker) {
    float* const c = memory + worker * s.floats();
    float *const a = c + s.c_floats(), *const b = a + kPositions * s.a_step();
    const int64_t i0 = task % s.n_rows() * s.rows, j0 = task / s.n_rows() * s.columns;
    const int64_t rows = std::min(s.rows, s.m - i0), columns = std::min(s.columns, s.n - j0);
    const int64_t n_panels = (columns + kNr - 1) / kNr;
    const auto tile = [&](int64_t i, int64_t j) {
      return c + (i / kMr * n_panels + j / kNr) * kPositions * kTileFloats;
    };
    for (int64_t k0 = 0; k0 < s.k; k0 += s.depth) {
      const int64_t depth = std::min(s.depth, s.k - k0);
      pack_a(i0, rows, k0, depth, a, s.a_step());
      pack_b(j0, columns, k0, depth, b, s.b_step());
      for (int t = 0; t < kPositions; ++t) {
        for (int64_t j = 0; j < columns; j += kNr) {
          const float* panel = b + t * s.b_step() + j * depth;
          const bool is_half = columns - j <= kHalf * kWidth;
          for (int64_t i = 0; i < rows; i += kMr) {
            const float* from = a + t * s.a_step() + i * depth;
            float* to = tile(i, j) + t * kTileFloats;
            if (is_half) {
              multiply_tile<kHalf>(depth, from, panel, k0 == 0, to);
            } else {
              multiply_tile<kVecs>(depth, from, panel, k0 == 0, to);
            }
          }
        }
      }
    }
    for (int64_t j = 0; j < columns; j += kNr) {
      for (int64_t i = 0; i < rows; i += kMr) {
        write(i0 + i, std::min<int64_t>(kMr, rows - i), j0 + j, std::min<int64_t>(kNr, columns - j),
              tile(i, j));
      }
    }
  });
}

}  // namespace daf::DAF_ISA::winograd
