// What `daf bench reduce` measures, and what `daf tune` does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime_ops/gpu/hybrid_reducer.h"

namespace daf::bench {

// Every variant of a device, the CPU's kernels and a plain read, on the same n values.
class Reduce {
 public:
  // Throws GpuError when there is no such device.
  Reduce(Backend backend, int64_t n);
  ~Reduce();

  const ReduceDevice& device() const;
  bool shares_memory() const;
  std::vector<Variant> variants(ReduceOp op) const;

  // Seconds that have passed.
  double run(ReduceOp op, const Variant& variant);
  double run_read();  // the sum of all values, as words

 private:
  struct Memory;
  int64_t n_;
  std::unique_ptr<Memory> memory_;  // unmapped after the device is gone
  std::unique_ptr<Reducer> cpu_, gpu_;
  PlanePieces pieces_;
  std::vector<OrderedRange> ranges_;
};

// Stores and reads activations of each size until `reducer` knows what is fastest for them.
void tune(HybridReducer& reducer, const std::vector<int64_t>& sizes,
          const std::function<void(int64_t size)>& on_size);

}  // namespace daf::bench
