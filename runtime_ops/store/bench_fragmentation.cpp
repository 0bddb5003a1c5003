#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "runtime_ops/store/bench.h"
#include "runtime_ops/store/stored_tensor.h"

namespace daf::bench {
namespace {

// What the C library has taken from the operating system, and of it what is not in use.
struct Held {
  size_t bytes = 0, free_bytes = 0;
};
Held held_by_malloc() {
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return {info.arena + info.hblkhd, info.fordblks};
#endif
#endif
  return {};
}

// Takes all that malloc has lying free, so that what comes next shows in what it holds.
class FillMalloc {
 public:
  FillMalloc() {
    for (const size_t size : {1 << 20, 1 << 16, 1 << 12, 1 << 8}) {
      const size_t before = held_by_malloc().bytes;
      while (before != 0 && held_by_malloc().bytes == before) {
        void* block = std::malloc(size);
        std::memcpy(block, &last_, sizeof(last_));
        last_ = block;
      }
    }
  }
  ~FillMalloc() {
    while (last_ != nullptr) {
      void* block = last_;
      std::memcpy(&last_, block, sizeof(last_));
      std::free(block);
    }
  }

 private:
  void* last_ = nullptr;  // each begins with the address of the one before
};

// A tensor without values: the same parts in the pool and in malloc.
struct Parts {
  StoredTensor tensor;
  std::vector<uint32_t> places;
  std::vector<void*> blocks;
};

class FragmentationRun {
 public:
  FragmentationRun(size_t page_bytes, bool among_others, uint32_t seed)
      : among_others_(among_others),
        random_(seed),
        sizes_(resnet18_sizes(8, 16)),
        pool_(page_bytes, kMaxPages, 0) {
    pool_.set_budget(kMaxPages);
    const std::vector<int64_t> more = vit_tiny_sizes(8);
    sizes_.insert(sizes_.end(), more.begin(), more.end());
    parts_.resize(sizes_.size());
    for (size_t i = 0; i < sizes_.size(); ++i) make_places(i);
    filled_ = std::make_unique<FillMalloc>();
    const Held held = held_by_malloc();
    malloc_before_ = held.bytes - held.free_bytes;
  }

  ~FragmentationRun() {
    for (Parts& parts : parts_) {
      for (void* block : parts.blocks) std::free(block);
    }
    for (Other& other : others_) std::free(other.block);
  }

  void step() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      store(i, static_cast<int>(random_() % kMaxPlanes) + 1);
      if (random_() % 2 == 0) drop(random_() % (i + 1));
      if (among_others_ && random_() % 8 == 0) add_other();
    }
    needed_ = 0;
    for (const Parts& parts : parts_) needed_ += parts.tensor.stored_bytes();
    most_needed_ = std::max(most_needed_, needed_);
    const size_t used = pool_.used_pages() * pool_.page_bytes();
    result_.used = std::max(result_.used, ratio(used, needed_));
    malloc_held_ = std::max(malloc_held_, held_by_malloc().bytes - malloc_before_ - other_bytes_);
    for (size_t i = parts_.size(); i-- > 0;) release(i);
    for (Other& other : others_) {
      if (--other.steps_left == 0) remove_other(other);
    }
  }

  Fragmentation result() {
    result_.held = ratio(pool_.committed_pages() * pool_.page_bytes(), most_needed_);
    result_.malloc_held = ratio(malloc_held_, most_needed_);
    return result_;
  }

 private:
  static constexpr size_t kMaxPages = 1 << 16;

  // Something else that the process keeps for some steps.
  struct Other {
    void* block = nullptr;
    size_t size_bytes = 0;
    uint32_t steps_left = 0;
  };

  void add_other() {
    Other& other = others_[random_() % others_.size()];
    remove_other(other);
    other.size_bytes = random_() % 8192 + 1;
    other.steps_left = random_() % 200 + 1;
    other.block = std::malloc(other.size_bytes);
    other_bytes_ += other.size_bytes;
  }

  void remove_other(Other& other) {
    std::free(std::exchange(other.block, nullptr));
    other_bytes_ -= std::exchange(other.size_bytes, 0);
  }

  static double ratio(size_t a, size_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }

  void make_places(size_t i) {
    const auto units = StoredTensor::units(sizes_[i], pool_.unit_bytes());
    const size_t most = Piece::max_blocks(std::max(units.headers, units.plane));
    Parts& parts = parts_[i];
    parts.places.resize(most * (kMaxPlanes + 1));
    parts.tensor.headers.blocks = parts.places.data();
    for (size_t p = 0; p < kMaxPlanes; ++p) {
      parts.tensor.planes[p].blocks = parts.places.data() + most * (p + 1);
    }
    parts.blocks.resize(kMaxPlanes + 1);
  }

  void store(size_t i, int bits) {
    Parts& parts = parts_[i];
    StoredTensor& tensor = parts.tensor;
    const auto units = StoredTensor::units(sizes_[i], pool_.unit_bytes());
    const size_t n_groups = static_cast<size_t>(StoredTensor::n_groups(sizes_[i]));
    tensor.n_elements = sizes_[i];
    tensor.bits = bits;
    tensor.headers.allocate(pool_, units.headers, moved_);
    parts.blocks[kMaxPlanes] = std::malloc(n_groups * 4);
    for (int p = 0; p < bits; ++p) {
      tensor.planes[p].allocate(pool_, units.plane, moved_);
      parts.blocks[p] = std::malloc(n_groups * kPlaneGroupBytes);
    }
  }

  void drop(size_t i) {
    StoredTensor& tensor = parts_[i].tensor;
    if (tensor.bits <= 1) return;
    --tensor.bits;
    tensor.planes[tensor.bits].free(pool_);
    std::free(std::exchange(parts_[i].blocks[tensor.bits], nullptr));
  }

  void release(size_t i) {
    parts_[i].tensor.for_each_piece([&](Piece& piece) { piece.free(pool_); });
    for (void*& block : parts_[i].blocks) std::free(std::exchange(block, nullptr));
  }

  const bool among_others_;
  std::mt19937 random_;
  std::vector<int64_t> sizes_;
  PagePool pool_;
  std::array<Other, 1000> others_;
  size_t other_bytes_ = 0;
  std::vector<Parts> parts_;
  std::unique_ptr<FillMalloc> filled_;
  size_t needed_ = 0, most_needed_ = 0, malloc_before_ = 0, malloc_held_ = 0;
  Fragmentation result_ = {};
  const PagePool::Moved moved_ = [this](uint32_t from, uint32_t to, uint32_t n_units) {
    for (Parts& parts : parts_) {
      parts.tensor.for_each_piece([&](Piece& piece) { piece.relocate(from, to, n_units); });
    }
  };
};

}  // namespace

Fragmentation run_fragmentation(int64_t n_steps, size_t page_bytes, bool among_others,
                                uint32_t seed) {
  FragmentationRun run(page_bytes, among_others, seed);
  for (int64_t step = 0; step < n_steps; ++step) run.step();
  return run.result();
}

// Convolution outputs of ResNet-18 on 32 x 32 images.
std::vector<int64_t> resnet18_sizes(int64_t batch_size, int64_t width) {
  std::vector<int64_t> sizes;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t side = 32 >> stage;
    sizes.insert(sizes.end(), 10, batch_size * (width << stage) * side * side);
  }
  sizes.push_back(batch_size * (width << 3));
  return sizes;
}

// A block of ViT-Tiny is layer norms, queries, keys, values, attention and a GELU.
std::vector<int64_t> vit_tiny_sizes(int64_t batch_size) {
  std::vector<int64_t> sizes;
  for (int block = 0; block < 12; ++block) {
    const int64_t tokens = batch_size * 65, dim = 192;
    for (const int64_t n : {dim, dim, 3 * dim, dim, 4 * dim, 4 * dim}) sizes.push_back(tokens * n);
    sizes.push_back(batch_size * 3 * 65 * 65);
    sizes.push_back(2 * tokens);
  }
  return sizes;
}

}  // namespace daf::bench
