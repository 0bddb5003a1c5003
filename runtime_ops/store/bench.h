// What `daf bench store` measures: the codec, the pool and the store beside their peers, in
// processor time of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime_ops/store/store.h"

namespace daf::bench {

// Encoding and decoding, and memcpy of the same floats.
class Codec {
 public:
  explicit Codec(int64_t n_elements);

  struct Seconds {
    double copy, pack, unpack;
  };
  Seconds run(int bits);

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  using Floats = std::unique_ptr<float, Free>;

  int64_t n_elements_;
  Floats from_, to_, planes_;
  std::vector<uint32_t> headers_;
  size_t plane_words_;
};

// Nanoseconds to free a page at random and take another, with all of n_pages taken; and the same
// with malloc.
struct PageNanoseconds {
  double pool, malloc;
};
PageNanoseconds time_pages(size_t n_pages, int64_t n_operations);

// Nanoseconds to take the cheapest of n_tensors out of the order and put it back elsewhere.
double time_drop_order(size_t n_tensors, int64_t n_operations);

// Steps with random bits for the activations of two models, and random drops; nothing is written.
// Over what the tensors need to the byte: `used`, the bytes of pages that hold something, in the
// worst step; `held`, what the pool, or malloc with a block for every part, has taken from the
// operating system, over the most that was needed (0 where the C library does not tell).
// `among_others`: between them the process also allocates small blocks that stay for some steps.
struct Fragmentation {
  double used, held, malloc_held;
};
Fragmentation run_fragmentation(int64_t n_steps, size_t page_bytes, bool among_others,
                                uint32_t seed);

// Steps that stash and read the activations of ResNet-18 at 2 bits.
struct Steps {
  double first_s;               // with all growing
  std::vector<double> later_s;  // each of the others
  std::vector<double> copy_s;   // memcpy of all of it there and back
  StoreStats stats;             // with everything stored
};
Steps run_steps(int n_steps, size_t page_bytes, size_t grow_step_bytes);

// Elements of the activations of two models that are kept for backward.
std::vector<int64_t> resnet18_sizes(int64_t batch_size, int64_t width);
std::vector<int64_t> vit_tiny_sizes(int64_t batch_size);

}  // namespace daf::bench
