// Encoding and decoding of activations by whatever is fastest: the CPU alone, or with the GPU. The
// results have the same bits either way, and a GPU that fails is done without.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime_ops/gpu/options.h"
#include "runtime_ops/gpu/reducer.h"
#include "runtime_ops/gpu/selector.h"

namespace daf {

enum class ReduceMode { kAuto, kCpu, kVulkan, kOpenCl };
const char* name_of(ReduceMode mode);
// Null when there is none of this name.
const ReduceMode* find_reduce_mode(const std::string& name);

struct HybridOptions {
  // kAuto learns which is fastest, of the CPU and real GPUs; where the kernel knows no GPU it does
  // not even load a driver. The others use what they name.
  ReduceMode mode = ReduceMode::kAuto;
  GpuOptions gpu;
  bool tries_software = false;                  // kAuto: also drivers that compute on the CPU
  std::function<int64_t()> clock_ns;            // a steady one, when it is not given
  std::function<bool(const Variant&)> may_use;  // all of them, when it is not given
};

// A backend that was looked for, in this order.
struct ProbedBackend {
  Backend backend;
  std::string reason;  // why it is not used; empty: it is
  ReduceDevice device;
};

class HybridReducer {
 public:
  // Never fails: without a GPU it is the CPU.
  explicit HybridReducer(const HybridOptions& options);
  ~HybridReducer();

  // Calls pack(ranges) with the ranges of x's groups, or null when it shall find them itself.
  using Pack = std::function<int64_t(const OrderedRange* ranges)>;
  // Where a device packs too: pack_on(ranges, device_pack) makes the headers, calls device_pack and
  // does what is left.
  using DevicePack = std::function<void(const GroupCode* codes, const PlanePieces& to)>;
  using PackOn = std::function<int64_t(const OrderedRange* ranges, const DevicePack& device_pack)>;
  int64_t encode(int64_t n, const float* x, const Pack& pack, const PackOn& pack_on);

  // y[0, n): on a GPU from pieces(), then finish(); or by decode_here() alone.
  void decode(int64_t n, float* y, const std::function<PlanePieces()>& pieces,
              const std::function<void()>& finish, const std::function<void()>& decode_here);

  // See Reducer. True when some device uses the memory where it lies.
  bool share(void* data, size_t size_bytes);
  void unshare(void* data);

  bool has_gpu() const;
  ReduceMode mode() const { return mode_; }
  const std::vector<ProbedBackend>& probed() const { return probed_; }
  // Why the GPU was given up; empty when it was not.
  std::string failure() const;
  // The name of what is used for n values now; empty while variants are tried.
  std::string best(ReduceOp op, int64_t n) const;

  struct Use {
    int64_t n_calls = 0, elapsed_ns = 0;
  };
  // By operation and variant: "encode vulkan tree vec4".
  std::map<std::string, Use> uses() const;
  uint64_t copied_bytes() const;

  // What was learned, and from what: see Selector.
  std::string table_key() const;
  std::vector<Selector::Entry> table() const;
  void load_table(const std::vector<Selector::Entry>& table);

 private:
  void probe(Backend backend, const HybridOptions& options);
  Reducer* reducer(Backend backend) const;
  Variant choose(ReduceOp op, int64_t n);
  void record(ReduceOp op, int64_t n, const Variant& variant, int64_t started_ns);
  void give_up(const GpuError& error);

  const ReduceMode mode_;
  const std::function<int64_t()> clock_ns_;
  std::vector<ProbedBackend> probed_;
  std::vector<std::unique_ptr<Reducer>> gpus_;
  std::unique_ptr<Selector> selector_;
  std::vector<OrderedRange> ranges_;
  std::map<std::string, Use> uses_;
  uint64_t copied_bytes_ = 0;  // by devices that were given up
  std::string failure_;
  mutable std::mutex mutex_;  // of what is above
  std::mutex gpu_mutex_;      // one call of a device at a time
};

}  // namespace daf
