#include "runtime_ops/gpu/hybrid_reducer.h"

#include <unistd.h>

#include <chrono>

namespace daf {
namespace {

using Lock = std::lock_guard<std::mutex>;

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What the kernels of Linux and Android call a GPU.
bool kernel_knows_a_gpu() {
  for (const char* device : {"/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kgsl-3d0",
                             "/dev/mali0", "/dev/pvrsrvkm", "/dev/pvr_sync", "/dev/nvidia0"}) {
    if (access(device, F_OK) == 0) return true;
  }
  return false;
}

constexpr ReduceMode kModes[] = {ReduceMode::kAuto, ReduceMode::kCpu, ReduceMode::kVulkan,
                                 ReduceMode::kOpenCl};

std::unique_ptr<Reducer> make(Backend backend, const GpuOptions& options) {
  return backend == Backend::kVulkan ? make_vulkan_reducer(options) : make_opencl_reducer(options);
}

}  // namespace

const char* name_of(ReduceMode mode) {
  constexpr const char* kNames[] = {"auto", "cpu", "vulkan", "opencl"};
  return kNames[static_cast<int>(mode)];
}

const ReduceMode* find_reduce_mode(const std::string& name) {
  for (const ReduceMode& mode : kModes) {
    if (name == name_of(mode)) return &mode;
  }
  return nullptr;
}

HybridReducer::HybridReducer(const HybridOptions& options)
    : mode_(options.mode), clock_ns_(options.clock_ns ? options.clock_ns : steady_ns) {
  const ReduceMode mode = options.mode;
  const bool tries_all =
      mode == ReduceMode::kAuto && (options.tries_software || kernel_knows_a_gpu());
  if (tries_all || mode == ReduceMode::kVulkan) probe(Backend::kVulkan, options);
  if (tries_all || mode == ReduceMode::kOpenCl) probe(Backend::kOpenCl, options);
  std::vector<std::vector<Variant>> variants(std::size(kReduceOps));
  for (const ReduceOp op : kReduceOps) {
    std::vector<Variant>& of_op = variants[static_cast<size_t>(op)];
    if (mode == ReduceMode::kAuto || gpus_.empty()) of_op.push_back(Variant{});
    for (const auto& gpu : gpus_) {
      for (const Variant& variant : gpu->variants(op)) {
        if (!options.may_use || options.may_use(variant)) of_op.push_back(variant);
      }
    }
  }
  selector_ = std::make_unique<Selector>(std::move(variants));
}

HybridReducer::~HybridReducer() = default;

void HybridReducer::probe(Backend backend, const HybridOptions& options) {
  ProbedBackend probed = {backend, "", {}};
  try {
    std::unique_ptr<Reducer> gpu = make(backend, options.gpu);
    probed.device = gpu->device();
    if (options.mode == ReduceMode::kAuto && probed.device.is_software && !options.tries_software) {
      probed.reason = probed.device.name + " is the CPU";
    } else {
      check_reducer(*gpu);
      gpus_.push_back(std::move(gpu));
    }
  } catch (const GpuError& error) {
    probed.reason = error.what();
  }
  probed_.push_back(std::move(probed));
}

Reducer* HybridReducer::reducer(Backend backend) const {
  for (const auto& gpu : gpus_) {
    if (gpu->device().backend == backend) return gpu.get();
  }
  return nullptr;
}

Variant HybridReducer::choose(ReduceOp op, int64_t n) {
  const Lock lock(mutex_);
  return gpus_.empty() ? Variant{} : selector_->choose(op, n);
}

void HybridReducer::record(ReduceOp op, int64_t n, const Variant& variant, int64_t started_ns) {
  const int64_t elapsed_ns = clock_ns_() - started_ns;
  const Lock lock(mutex_);
  if (!gpus_.empty()) selector_->record(op, n, variant, elapsed_ns);
  Use& use = uses_[(op == ReduceOp::kDecode ? "decode " : "encode ") + variant.name()];
  ++use.n_calls;
  use.elapsed_ns += elapsed_ns;
}

// All of them: what makes one fail rarely leaves the other alone.
void HybridReducer::give_up(const GpuError& error) {
  const Lock lock(mutex_);
  failure_ = error.what();
  for (const auto& gpu : gpus_) {
    copied_bytes_ += gpu->copied_bytes();
    selector_->remove(gpu->device().backend);
  }
  gpus_.clear();
}

int64_t HybridReducer::encode(int64_t n, const float* x, const Pack& pack, const PackOn& pack_on) {
  const Variant variant = choose(ReduceOp::kRanges, n);
  const int64_t started_ns = clock_ns_();
  const OrderedRange* ranges = nullptr;
  int64_t result = -1;
  if (variant.backend != Backend::kCpu) {
    const Lock lock(gpu_mutex_);
    Reducer* gpu = reducer(variant.backend);
    try {
      if (gpu != nullptr) {
        ranges_.resize(static_cast<size_t>((n + kPlaneGroup - 1) / kPlaneGroup));
        gpu->find_ranges(variant, n, kPlaneGroup, x, ranges_.data());
        ranges = ranges_.data();
        if (variant.packs && n <= Reducer::kMaxPacked) {
          result = pack_on(ranges, [&](const GroupCode* codes, const PlanePieces& to) {
            gpu->pack(n, x, codes, to);
          });
        }
      }
    } catch (const GpuError& error) {
      give_up(error);
    }
  }
  if (result < 0) result = pack(ranges);
  record(ReduceOp::kRanges, n, ranges == nullptr ? Variant{} : variant, started_ns);
  return result;
}

void HybridReducer::decode(int64_t n, float* y, const std::function<PlanePieces()>& pieces,
                           const std::function<void()>& finish,
                           const std::function<void()>& decode_here) {
  const Variant variant = choose(ReduceOp::kDecode, n);
  const int64_t started_ns = clock_ns_();
  bool is_done = false;
  if (variant.backend != Backend::kCpu) {
    const Lock lock(gpu_mutex_);
    Reducer* gpu = reducer(variant.backend);
    try {
      if (gpu != nullptr) {
        gpu->decode(variant, pieces(), y);
        is_done = true;
      }
    } catch (const GpuError& error) {
      give_up(error);
    }
  }
  if (is_done) {
    finish();
  } else {
    decode_here();
  }
  record(ReduceOp::kDecode, n, is_done ? variant : Variant{}, started_ns);
}

bool HybridReducer::share(void* data, size_t size_bytes) {
  const Lock lock(gpu_mutex_);
  bool is_shared = false;
  for (const auto& gpu : gpus_) is_shared |= gpu->share(data, size_bytes);
  return is_shared;
}

void HybridReducer::unshare(void* data) {
  const Lock lock(gpu_mutex_);
  try {
    for (const auto& gpu : gpus_) gpu->unshare(data);
  } catch (const GpuError& error) {
    give_up(error);  // then nobody has it
  }
}

bool HybridReducer::has_gpu() const {
  const Lock lock(mutex_);
  return !gpus_.empty();
}

std::string HybridReducer::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

std::string HybridReducer::best(ReduceOp op, int64_t n) const {
  const Lock lock(mutex_);
  return selector_->best(op, n);
}

std::map<std::string, HybridReducer::Use> HybridReducer::uses() const {
  const Lock lock(mutex_);
  return uses_;
}

uint64_t HybridReducer::copied_bytes() const {
  const Lock lock(mutex_);
  uint64_t copied = copied_bytes_;
  for (const auto& gpu : gpus_) copied += gpu->copied_bytes();
  return copied;
}

std::string HybridReducer::table_key() const {
  std::string key = current_isa() + " " + std::to_string(n_threads());
  for (const auto& gpu : gpus_) key += ", " + gpu->device().key();
  return key;
}

std::vector<Selector::Entry> HybridReducer::table() const {
  const Lock lock(mutex_);
  return selector_->table();
}

void HybridReducer::load_table(const std::vector<Selector::Entry>& table) {
  const Lock lock(mutex_);
  selector_->load(table);
}

}  // namespace daf
