// The blocked matrix product every dense kernel is built on: C[m,n] = A[m,k] B[k,n].
//
// The driver knows nothing about where A and B come from or where C goes:
//
//   packer  fills a panel from `count` rows of A (or columns of B); what it puts beyond `count`
//           is dropped:
//             template <int kSize> void pack(int64_t first, int64_t count, int64_t p0,
//                                            int64_t depth, float* panel) const
//           with panel[depth][kSize]. It may write kWidth floats beyond the panel, unless kSize is
//           whole vectors, as it is for B.
//   writer  says where a panel of columns goes:
//             template <int kNr> auto panel(int64_t j, int64_t columns) const
//           gives an object with `Direct direct` (where whole tiles can be stored from registers)
//           and
//             void operator()(int64_t i, int64_t rows, const float* tile, Part part)
//           for the other tiles[kMr][kNr], of which rows x columns are real.
//
// Sums over k run upwards within a block of depth and block after block: the order, and so every
// bit of the result, depends on nothing but k. So C may be split among threads in any way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/gemm_blocks.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {

// Which part of the sum over k a tile is.
struct Part {
  bool first, last;
};

// Whole tiles go to c[row * ld], a vector of columns at a time; null where they cannot.
struct Direct {
  float* c;
  int64_t ld;
  float alpha = 1.0f;                  // of the product
  const float* row_bias = nullptr;     // an entry per row of C, or null
  const float* column_bias = nullptr;  // an entry per column of the panel, or null
  const float* addend = nullptr;       // lies as C does, or null
  float low = kNoBound, high = kNoBound;

  bool has_bounds() const { return low == low || high == high; }
};

template <int kVecs>
inline __attribute__((always_inline)) void store_tile(const Direct& to, int64_t i, Part part,
                                                      Vec (&sum)[kMr][kVecs]) {
  const auto each = [&](auto term) {
#pragma GCC unroll 8
    for (int r = 0; r < kMr; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < kVecs; ++j) sum[r][j] = term(sum[r][j], r, j);
    }
  };
  const int64_t start = i * to.ld;
  const auto at = [&](const float* base, int r, int j) {
    return load(base + start + r * to.ld + j * kWidth);
  };
  if (to.alpha != 1.0f) each([&](Vec v, int, int) { return v * to.alpha; });
  if (!part.first) {
    each([&](Vec v, int r, int j) { return v + at(to.c, r, j); });
  } else {
    if (to.row_bias != nullptr) each([&](Vec v, int r, int) { return v + to.row_bias[i + r]; });
    if (to.column_bias != nullptr) {
      each([&](Vec v, int, int j) { return v + load(to.column_bias + j * kWidth); });
    }
    if (to.addend != nullptr) each([&](Vec v, int r, int j) { return v + at(to.addend, r, j); });
  }
  if (part.last && to.has_bounds()) {
    each([&](Vec v, int, int) { return clamp(v, to.low, to.high); });
  }
  each([&](Vec v, int r, int j) {
    store(to.c + start + r * to.ld + j * kWidth, v);
    return v;
  });
}

template <int kRows, int kVecs>
void compute_tile(int64_t depth, const float* a, const float* b, float* tile) {
  Vec sum[kRows][kVecs];
  MicroKernel::run<kRows, kVecs>(depth, a, b, sum);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) store(tile + r * kNr + j * kWidth, sum[r][j]);
  }
}

// The tile of the first `rows` rows only: the others would cost as much as real ones.
template <int kVecs, int kRows = kMr>
void compute_rows(int64_t rows, int64_t depth, const float* a, const float* b, float* tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return compute_rows<kVecs, kRows - 1>(rows, depth, a, b, tile);
  }
  compute_tile<kRows, kVecs>(depth, a, b, tile);
}

// One packed panel of B times a packed block of A.
template <class Write>
void multiply_panel(int64_t i0, int64_t mc, int64_t columns, int64_t depth, const float* a,
                    const float* b, Part part, const Write& write) {
  constexpr int kVecs = kNr / kWidth, kHalf = (kVecs + 1) / 2;
  const Direct direct = write.direct;
  alignas(64) float tile[kMr * kNr + kWidth];  // a writer may read beyond it
  for (int l = 0; l < kWidth; ++l) tile[kMr * kNr + l] = 0.0f;
  for (int64_t i = 0; i < mc; i += kMr, a += kMr * depth) {
    const int64_t rows = std::min<int64_t>(kMr, mc - i);
    if (rows == kMr && columns == kNr && direct.c != nullptr) {
      const float* out = direct.c + (i0 + i) * direct.ld;
      for (int r = 0; r < kMr; ++r) __builtin_prefetch(out + r * direct.ld, 1);
      Vec sum[kMr][kVecs];
      MicroKernel::run<kMr, kVecs>(depth, a, b, sum);
      store_tile(direct, i0 + i, part, sum);
      continue;
    }
    if (columns <= kHalf * kWidth) {
      compute_rows<kHalf>(rows, depth, a, b, tile);
    } else {
      compute_rows<kVecs>(rows, depth, a, b, tile);
    }
    write(i0 + i, rows, tile, part);
  }
}

template <int kSize, class Packer>
void pack_block(const Packer& packer, int64_t first, int64_t count, int64_t p0, int64_t depth,
                float* block) {
  for (int64_t i = 0; i < count; i += kSize) {
    packer.template pack<kSize>(first + i, std::min<int64_t>(kSize, count - i), p0, depth,
                                block + i * depth);
  }
}

// Rows [m0, m1) and columns [n0, n1) of C, by one thread.
template <class PackA, class PackB, class Writer>
void gemm_task(int64_t m0, int64_t m1, int64_t n0, int64_t n1, int64_t k, const PackA& pack_a,
               const PackB& pack_b, const Writer& writer, float* a, float* b) {
  const int64_t max_depth = block_depth(k);
  const bool one_row_block = m1 - m0 <= kMc;
  // Rows of C stay in L2 from one block of depth to the next.
  const int64_t max_nc =
      one_row_block ? std::max(kNc, kCFloats / std::max<int64_t>(m1 - m0, 1) / kNr * kNr) : kNc;
  const bool a_stays = one_row_block && max_depth >= k;
  for (int64_t j0 = n0; j0 < n1; j0 += max_nc) {
    const int64_t nc = std::min(max_nc, n1 - j0);
    int64_t p0 = 0;
    do {  // once even for k = 0: C is then zero, and the writer adds its bias
      const int64_t depth = std::min(max_depth, k - p0);
      for (int64_t i0 = m0; i0 < m1; i0 += kMc) {
        const int64_t mc = std::min(kMc, m1 - i0);
        if (!a_stays || j0 == n0) pack_block<kMr>(pack_a, i0, mc, p0, depth, a);
        for (int64_t j = 0; j < nc; j += kNr) {
          const int64_t columns = std::min<int64_t>(kNr, nc - j);
          float* panel = one_row_block ? b : b + j * depth;
          // Just before its first use, which then finds it in L1.
          if (i0 == m0) pack_b.template pack<kNr>(j0 + j, columns, p0, depth, panel);
          multiply_panel(i0, mc, columns, depth, a, panel, {p0 == 0, p0 + max_depth >= k},
                         writer.template panel<kNr>(j0 + j, columns));
        }
      }
      p0 += max_depth;
    } while (p0 < k);
  }
}

template <class PackA, class PackB, class Writer>
void shared_gemm(int64_t m, int64_t n, int64_t k, const PackA& pack_a, const PackB& pack_b,
                 const Writer& writer, const GemmPanels& panels) {
  const int64_t max_depth = block_depth(k), chunk_rows = SharedProduct::chunk_rows(m);
  SharedProduct product(m, n, k);
  for_each_task(product.n_tasks(), [&](int64_t number, int worker) {
    const auto task = product.task(number);
    const int64_t depth = std::min(max_depth, k - task.p0);
    const int64_t nc = std::min(kNc, n - task.column);
    float* b = panels.shared_b(task.buffer);
    if (task.packs) {
      const int64_t n_panels = (nc + kNr - 1) / kNr;
      const int64_t first = product.first_panel(task.part, n_panels) * kNr;
      const int64_t last = std::min(nc, product.first_panel(task.part + 1, n_panels) * kNr);
      product.wait_to_pack(task);
      pack_block<kNr>(pack_b, task.column + first, last - first, task.p0, depth, b + first * depth);
    } else {
      const int64_t m0 = task.part * chunk_rows, m1 = std::min(m, m0 + chunk_rows);
      const Part part{task.p0 == 0, task.p0 + max_depth >= k};
      product.wait_to_compute(task);
      for (int64_t i = m0; i < m1; i += kMc) {
        const int64_t mc = std::min(kMc, m1 - i);
        pack_block<kMr>(pack_a, i, mc, task.p0, depth, panels.a(worker));
        for (int64_t j = 0; j < nc; j += kNr) {
          const int64_t columns = std::min<int64_t>(kNr, nc - j);
          multiply_panel(i, mc, columns, depth, panels.a(worker), b + j * depth, part,
                         writer.template panel<kNr>(task.column + j, columns));
        }
      }
    }
    product.finish(task);
  });
}

template <class PackA, class PackB, class Writer>
void blocked_gemm(int64_t m, int64_t n, int64_t k, const PackA& pack_a, const PackB& pack_b,
                  const Writer& writer, const GemmPanels& panels) {
  if (SharedProduct::pays(m, n, k)) {
    return shared_gemm(m, n, k, pack_a, pack_b, writer, panels);
  }
  const Grid grid(m, n, k);
  for_each_task(grid.n_tasks(), [&](int64_t task, int worker) {
    const int64_t i = task % grid.n_rows * grid.row_step;
    const int64_t j = task / grid.n_rows * grid.column_step;
    gemm_task(i, std::min(m, i + grid.row_step), j, std::min(n, j + grid.column_step), k, pack_a,
              pack_b, writer, panels.a(worker), panels.b(worker));
  });
}

}  // namespace daf::DAF_ISA
