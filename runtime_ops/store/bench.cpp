#include "runtime_ops/store/bench.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/store/drop_order.h"
#include "runtime_ops/store/stored_tensor.h"

namespace daf::bench {
namespace {

double now_s() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Body>
double time_s(Body body) {
  const double start = now_s();
  body();
  return now_s() - start;
}

// The processor time of this thread is all there is.
class OneThread {
 public:
  OneThread() { set_threads(1); }
  ~OneThread() { set_threads(before_); }

 private:
  int before_ = n_threads();
};

// In huge pages where the system has them: where small ones come to lie decides about a third of
// the speed, for memcpy as for the store.
float* new_floats(int64_t n) {
  constexpr size_t kHugePage = 2 << 20;
  const size_t size_bytes =
      (static_cast<size_t>(n) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, size_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, size_bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, size_bytes);  // so that no page is touched for the first time later
  return static_cast<float*>(memory);
}

void fill(int64_t n, float* x) {
  std::mt19937 random(1);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(random() >> 8) * 0x1p-24f;
}

}  // namespace

// ---- codec --------------------------------------------------------------------------------------

void Codec::Free::operator()(void* memory) const { std::free(memory); }

Codec::Codec(int64_t n_elements)
    : n_elements_(n_elements), from_(new_floats(n_elements)), to_(new_floats(n_elements)) {
  fill(n_elements, from_.get());
  const size_t n_groups = static_cast<size_t>(StoredTensor::n_groups(n_elements));
  headers_.resize(n_groups);
  plane_words_ = n_groups * (kPlaneGroupBytes / 4);
  planes_.reset(new_floats(static_cast<int64_t>(plane_words_) * kMaxPlanes));
}

Codec::Seconds Codec::run(int bits) {
  const OneThread one_thread;
  BitPlanes run = {bits, headers_.data(), {}, {}};
  for (int p = 0; p < kMaxPlanes; ++p) {
    run.plane[p] =
        reinterpret_cast<uint32_t*>(planes_.get()) + plane_words_ * static_cast<size_t>(p);
  }
  const size_t size_bytes = static_cast<size_t>(n_elements_) * sizeof(float);
  // memcpy too writes around the caches what is larger than they are.
  const bool is_large = size_bytes >= size_t{16} << 20;
  Seconds s = {};
  s.copy = time_s([&] { std::memcpy(to_.get(), from_.get(), size_bytes); });
  s.pack = time_s([&] { bitplane_encode(n_elements_, from_.get(), is_large, run); });
  s.unpack = time_s([&] { bitplane_decode(run, bits, 0, n_elements_, is_large, to_.get()); });
  return s;
}

// ---- pool ---------------------------------------------------------------------------------------

PageNanoseconds time_pages(size_t n_pages, int64_t n_operations) {
  constexpr size_t kPage = 16384;
  constexpr int kOrder = PagePool::kPageOrder;
  const double per_operation = 1e9 / static_cast<double>(n_operations);
  std::mt19937 random(1);
  std::vector<uint32_t> victims(static_cast<size_t>(n_operations));
  for (uint32_t& victim : victims) victim = static_cast<uint32_t>(random() % n_pages);

  PagePool pool(kPage, n_pages, 0, true);  // nothing is written: no memory is needed
  pool.set_budget(n_pages);
  std::vector<uint32_t> pages(n_pages);
  for (uint32_t& page : pages) page = pool.allocate(kOrder);
  PageNanoseconds ns = {};
  ns.pool = per_operation * time_s([&] {
              for (const uint32_t victim : victims) {
                pool.free(pages[victim], kOrder);
                pages[victim] = pool.allocate(kOrder);
              }
            });

  std::vector<void*> blocks(n_pages);
  for (void*& block : blocks) block = std::malloc(kPage);
  ns.malloc = per_operation * time_s([&] {
                for (const uint32_t victim : victims) {
                  std::free(blocks[victim]);
                  blocks[victim] = std::malloc(kPage);
                }
              });
  for (void* block : blocks) std::free(block);
  return ns;
}

double time_drop_order(size_t n_tensors, int64_t n_operations) {
  std::mt19937 random(1);
  DropOrder order(n_tensors);
  for (size_t id = 0; id < n_tensors; ++id) order.insert(static_cast<int>(id), random());
  return 1e9 / static_cast<double>(n_operations) * time_s([&] {
           for (int64_t i = 0; i < n_operations; ++i) {
             const int id = order.cheapest();
             const double loss = order.loss_per_byte(id);
             order.remove(id);
             order.insert(id, loss + random());
           }
         });
}

// ---- store --------------------------------------------------------------------------------------

Steps run_steps(int n_steps, size_t page_bytes, size_t grow_step_bytes) {
  const OneThread one_thread;
  const std::vector<int64_t> sizes = resnet18_sizes(8, 64);
  std::vector<StoreEntry> plan;
  for (const int64_t n : sizes) plan.push_back({"activation", n, 2, 1, 1});
  StoreOptions options;
  options.page_bytes = page_bytes;
  options.grow_step_bytes = grow_step_bytes;
  options.budget_bytes = size_t{1} << 30;
  ActivationStore store(plan, options);

  const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
  int64_t total = 0;
  for (const int64_t n : sizes) total += n;
  const std::unique_ptr<float, decltype(&std::free)> from(new_floats(largest), &std::free);
  const std::unique_ptr<float, decltype(&std::free)> to(new_floats(largest), &std::free);
  const std::unique_ptr<float, decltype(&std::free)> kept(new_floats(total), &std::free);
  fill(largest, from.get());

  Steps result = {};
  for (int step = 0; step < n_steps; ++step) {
    double time = time_s([&] {
      store.begin_step(1, static_cast<uint64_t>(step));
      for (size_t i = 0; i < sizes.size(); ++i) store.stash(static_cast<int>(i), from.get());
    });
    result.stats = store.stats();
    time += time_s([&] {
      for (size_t i = sizes.size(); i-- > 0;) {
        store.read(static_cast<int>(i), 0, sizes[i], to.get());
        store.release(static_cast<int>(i));
      }
    });
    result.copy_s.push_back(time_s([&] {
      float* place = kept.get();
      for (const int64_t n : sizes) {
        std::memcpy(place, from.get(), static_cast<size_t>(n) * sizeof(float));
        place += n;
      }
      for (size_t i = sizes.size(); i-- > 0;) {
        place -= sizes[i];
        std::memcpy(to.get(), place, static_cast<size_t>(sizes[i]) * sizeof(float));
      }
    }));
    if (step == 0) {
      result.first_s = time;
    } else {
      result.later_s.push_back(time);
    }
  }
  return result;
}

}  // namespace daf::bench
