// How a matrix product (gemm_driver.h) is cut into tasks, and the memory that these need.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "runtime_ops/kernels/blocks.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"
#if defined(DAF_ISA_avx512)
#include "runtime_ops/kernels/avx512/micro_kernel.h"
#elif defined(DAF_ISA_avx2)
#include "runtime_ops/kernels/avx2/micro_kernel.h"
#elif defined(DAF_ISA_neon)
#include "runtime_ops/kernels/neon/micro_kernel.h"
#else
#include "runtime_ops/kernels/scalar/micro_kernel.h"
#endif

namespace daf::DAF_ISA {

constexpr int kMr = MicroKernel::kMr, kNr = MicroKernel::kNr;
static_assert(kMc % kMr == 0 && kNc % kNr == 0, "blocks are whole panels");
static_assert(kNr % kWidth == 0, "a row of a panel of B is whole vectors");

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Blocks of equal depth, so that the last one is not a thin rest.
inline int64_t block_depth(int64_t k) {
  const int64_t n_blocks = std::max<int64_t>(1, (k + kKc - 1) / kKc);
  return std::max<int64_t>(1, (k + n_blocks - 1) / n_blocks);
}

// How C is split into tasks that share nothing: each packs what it needs. Only the amount of
// packing depends on it, so it may depend on the number of threads.
struct Grid {
  int64_t row_step, column_step, n_rows, n_columns;

  Grid(int64_t m, int64_t n, int64_t k) : row_step(m), column_step(n) {
    constexpr int64_t kWorth = 1 << 18;  // multiply-adds worth waking a thread for
    const int64_t wanted = std::min<int64_t>(n_threads() == 1 ? 1 : 4 * n_threads(),
                                             std::max<int64_t>(1, m * n * k / kWorth));
    const int64_t across = std::clamp<int64_t>(n / (4 * kNr), 1, wanted);
    const int64_t down = std::clamp<int64_t>(m / (4 * kMr), 1, (wanted + across - 1) / across);
    column_step = std::max<int64_t>(kNr, round_up((n + across - 1) / across, kNr));
    row_step = std::max<int64_t>(kMr, round_up((m + down - 1) / down, kMr));
    n_rows = (m + row_step - 1) / row_step;
    n_columns = (n + column_step - 1) / column_step;
  }
  int64_t n_tasks() const { return n_rows * n_columns; }
};

// How threads share a product of many rows: B is packed once for all of them, a block of depth and
// columns after the other, in turns into one of two buffers; rows of C are computed in chunks.
//
// The tasks are numbered in an order in which one thread could do them: for each block, the parts
// of it to pack, then the chunks to compute. A task waits for tasks of smaller numbers only, which
// some thread has begun (thread_pool.h): it ends, however many threads there are.
class SharedProduct {
 public:
  static constexpr int64_t kMaxChunks = 1024;

  static bool pays(int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kWorth = 1 << 20;  // multiply-adds
    return n_threads() > 1 && m > kMc && m * n * k >= kWorth;
  }

  static int64_t chunk_rows(int64_t m) {
    const int64_t wanted = std::min<int64_t>(4 * n_threads(), kMaxChunks);
    return round_up((m + wanted - 1) / wanted, kMr);
  }

  SharedProduct(int64_t m, int64_t n, int64_t k)
      : depth_(block_depth(k)),
        n_depths_(std::max<int64_t>(1, (k + depth_ - 1) / depth_)),
        n_blocks_((n + kNc - 1) / kNc * n_depths_),
        chunk_rows_(chunk_rows(m)) {
    n_chunks_ = (m + chunk_rows_ - 1) / chunk_rows_;
    n_parts_ = std::min<int64_t>(n_chunks_, (std::min(n, kNc) + kNr - 1) / kNr);
  }

  int64_t n_tasks() const { return n_blocks_ * (n_parts_ + n_chunks_); }

  struct Task {
    int64_t column, p0;  // where its block begins
    int64_t block, part;
    bool packs;
    int buffer;
  };

  Task task(int64_t number) const {
    const int64_t block = number / (n_parts_ + n_chunks_), part = number % (n_parts_ + n_chunks_);
    const bool packs = part < n_parts_;
    return {block / n_depths_ * kNc,
            block % n_depths_ * depth_,
            block,
            packs ? part : part - n_parts_,
            packs,
            static_cast<int>(block % 2)};
  }

  // The panels of a block that a part has.
  int64_t first_panel(int64_t part, int64_t n_panels) const { return part * n_panels / n_parts_; }

  void wait_to_pack(const Task& task) {  // until nobody reads what its buffer held
    for (int64_t chunk = 0; chunk < n_chunks_; ++chunk) {
      wait_for(computed_[chunk], task.block - 1);
    }
  }
  void wait_to_compute(const Task& task) {
    wait_for(packed_[task.buffer], (task.block / 2 + 1) * n_parts_);
    wait_for(computed_[task.part], task.block);  // what it adds to
  }
  void finish(const Task& task) {
    (task.packs ? packed_[task.buffer] : computed_[task.part])
        .fetch_add(1, std::memory_order_release);
  }

 private:
  using Count = std::atomic<int64_t>;

  static void wait_for(const Count& count, int64_t value) {
    constexpr int kLooks = 1024;  // then others may run: who is waited for may have no core
    for (int look = 0; count.load(std::memory_order_acquire) < value; ++look) {
      if (look < kLooks) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
    }
  }

  int64_t depth_, n_depths_, n_blocks_, chunk_rows_, n_chunks_, n_parts_;
  std::array<Count, 2> packed_{};             // parts, of the blocks in each buffer
  std::array<Count, kMaxChunks> computed_{};  // blocks, of each chunk
};

// The packed blocks of every worker. Taken once per kernel call, because scratch is not given back
// between the groups of a convolution.
class GemmPanels {
 public:
  static constexpr int64_t kSlack = 16;  // for what packers write beyond a panel
  static_assert((kMc + kNc) * kKc + 2 * kSlack <= kMaxPanelFloats, "the bound in blocks.h");

  // For all products that will be made with them.
  void add_product(int64_t m, int64_t n, int64_t k) {
    if (SharedProduct::pays(m, n, k)) {
      const int64_t depth = block_depth(k), rows = SharedProduct::chunk_rows(m);
      a_size_ = std::max(a_size_, std::min(kMc, rows) * depth + kSlack);
      shared_size_ = std::max(shared_size_, std::min(kNc, round_up(n, kNr)) * depth + kSlack);
      n_workers_ = n_threads();
      return;
    }
    const Grid grid(m, n, k);
    add_task(std::min(grid.row_step, m), std::min(grid.column_step, n), k);
    n_workers_ = std::max(n_workers_, std::min<int64_t>(n_threads(), grid.n_tasks()));
  }
  // For products that are one task each.
  void add_whole_products(int64_t m, int64_t n, int64_t k) {
    add_task(m, n, k);
    n_workers_ = n_threads();
  }

  void take(Scratch& scratch) {
    a_ = scratch.take<float>(static_cast<size_t>(n_workers_ * a_size_ +
                                                 std::max(n_workers_ * b_size_, 2 * shared_size_)));
    b_ = a_ + n_workers_ * a_size_;
  }

  float* a(int worker) const { return a_ + worker * a_size_; }
  float* b(int worker) const { return b_ + worker * b_size_; }
  float* shared_b(int buffer) const { return b_ + buffer * shared_size_; }

 private:
  void add_task(int64_t rows, int64_t columns, int64_t k) {
    const int64_t depth = block_depth(k);
    a_size_ = std::max(a_size_, std::min(kMc, round_up(rows, kMr)) * depth + kSlack);
    // A single block of rows uses a panel of B at once and never again.
    const int64_t width = rows <= kMc ? kNr : std::min(kNc, round_up(columns, kNr));
    b_size_ = std::max(b_size_, width * depth + kSlack);
  }

  float *a_ = nullptr, *b_ = nullptr;
  int64_t a_size_ = 0, b_size_ = 0, shared_size_ = 0, n_workers_ = 1;
};

inline GemmPanels take_panels(int64_t m, int64_t n, int64_t k, Scratch& scratch) {
  GemmPanels panels;
  panels.add_product(m, n, k);
  panels.take(scratch);
  return panels;
}

}  // namespace daf::DAF_ISA
