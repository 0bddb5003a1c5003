#include "runtime_ops/gpu/bench.h"

#include <sys/mman.h>

#include <chrono>
#include <new>

#include "runtime_ops/gpu/options.h"
#include "runtime_ops/kernels/thread_pool.h"
#include "runtime_ops/store/store.h"

namespace daf::bench {
namespace {

constexpr int kBits = 2;

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void fill(int64_t n, float* x) {
  uint32_t state = 1;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    x[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
}

}  // namespace

// One mapping: the values, what is decoded, and planes with their headers.
struct Reduce::Memory {
  explicit Memory(int64_t n) : n_groups((n + kPlaneGroup - 1) / kPlaneGroup) {
    const int64_t words = 2 * n + n_groups * (1 + kBits * kPlaneGroupBytes / 4);
    constexpr size_t kPage = 16384;
    size_bytes = (static_cast<size_t>(words) * 4 + kPage - 1) / kPage * kPage;
    void* start =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    data = static_cast<uint32_t*>(start);
    x = reinterpret_cast<float*>(data);
    y = x + n;
    headers = data + 2 * n;
  }
  ~Memory() { munmap(data, size_bytes); }

  uint32_t* plane(int p) const { return headers + n_groups * (1 + p * kPlaneGroupBytes / 4); }

  int64_t n_groups;
  size_t size_bytes;
  uint32_t *data, *headers;
  float *x, *y;
  bool is_shared = false;
};

Reduce::Reduce(Backend backend, int64_t n)
    : n_(n),
      memory_(std::make_unique<Memory>(n)),
      cpu_(make_cpu_reducer()),
      gpu_(backend == Backend::kCpu      ? make_cpu_reducer()
           : backend == Backend::kVulkan ? make_vulkan_reducer()
                                         : make_opencl_reducer()),
      ranges_(static_cast<size_t>(memory_->n_groups)) {
  fill(n, memory_->x);
  BitPlanes planes = {kBits, memory_->headers, {}, {}};
  pieces_ = {kBits, kBits, memory_->n_groups, {memory_->headers}, 0, n, {}};
  for (int p = 0; p < kBits; ++p) {
    planes.plane[p] = memory_->plane(p);
    pieces_.parts.push_back(planes.plane[p]);
  }
  bitplane_encode(n, memory_->x, false, planes);
  memory_->is_shared = gpu_->share(memory_->data, memory_->size_bytes);
}

Reduce::~Reduce() { gpu_.reset(); }

const ReduceDevice& Reduce::device() const { return gpu_->device(); }
bool Reduce::shares_memory() const { return memory_->is_shared; }
std::vector<Variant> Reduce::variants(ReduceOp op) const { return gpu_->variants(op); }

double Reduce::run(ReduceOp op, const Variant& variant) {
  Reducer& reducer = variant.backend == Backend::kCpu ? *cpu_ : *gpu_;
  return seconds_of([&] {
    switch (op) {
      case ReduceOp::kRange:
        ranges_[0] = reducer.find_range(variant, n_, memory_->x);
        return;
      case ReduceOp::kRanges:
        reducer.find_ranges(variant, n_, kPlaneGroup, memory_->x, ranges_.data());
        return;
      case ReduceOp::kDecode:
        reducer.decode(variant, pieces_, memory_->y);
        return;
    }
  });
}

double Reduce::run_read() {
  constexpr int64_t kPart = 1 << 14;
  std::vector<uint32_t> sums(static_cast<size_t>(n_ / kPart + 1));
  auto sum = [&](int64_t part) {
    uint32_t total = 0;
    const int64_t end = std::min(n_, (part + 1) * kPart);
    for (int64_t i = part * kPart; i < end; ++i) total += memory_->data[i];
    sums[static_cast<size_t>(part)] = total;
  };
  return seconds_of([&] {
    run_tasks((n_ + kPart - 1) / kPart,
              [](void* s, int64_t part, int) { (*static_cast<decltype(sum)*>(s))(part); }, &sum);
  });
}

void tune(HybridReducer& reducer, const std::vector<int64_t>& sizes,
          const std::function<void(int64_t size)>& on_size) {
  constexpr int kMostCalls = 100;
  for (const int64_t n : sizes) {
    on_size(n);
    std::vector<float> x(static_cast<size_t>(n)), y(x.size());
    fill(n, x.data());
    const std::vector<StoreEntry> plan = {{"tuned", n, kBits, kBits, 1}};
    StoreOptions options;
    options.budget_bytes = ActivationStore::planned_bytes(plan);
    ActivationStore store(plan, options);
    store.set_reducer(&reducer);
    const auto is_known = [&](ReduceOp op) { return !reducer.best(op, n).empty(); };
    for (int call = 0; call < kMostCalls; ++call) {
      if (is_known(ReduceOp::kRanges) && is_known(ReduceOp::kDecode)) break;
      store.begin_step(1, static_cast<uint64_t>(call));
      store.stash(0, x.data());
      store.read(0, 0, n, y.data());
      store.release(0);
    }
  }
}

}  // namespace daf::bench
