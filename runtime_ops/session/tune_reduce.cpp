#include "runtime_ops/session/tune_reduce.h"

#include "runtime_ops/gpu/bench.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/reduce_table.h"

namespace daf {

std::vector<int64_t> tuned_sizes() {
  std::vector<int64_t> sizes;
  for (int shift = 12; shift < 20; ++shift) {
    for (const int64_t quarter : {4, 5, 6, 7}) sizes.push_back(quarter << shift);
  }
  return sizes;
}

std::string tune_reduce(const std::string& path, const std::vector<int64_t>& sizes,
                        bool tries_software, const std::function<void(int64_t)>& on_size) {
  HybridOptions options;
  options.tries_software = tries_software;
  options.gpu = gpu_options_from_environment();
  HybridReducer reducer(options);
  if (!reducer.has_gpu()) return "";
  reducer.load_table(load_reduce_table(path, reducer.table_key()));
  bench::tune(reducer, sizes, on_size);
  if (!reducer.failure().empty()) {
    throw DafError(Exit::kDevice, "cannot tune: " + reducer.failure());
  }
  if (!save_reduce_table(path, reducer.table_key(), reducer.table())) {
    throw DafError(Exit::kOutput, "cannot write " + path + "; choose another place");
  }
  return reducer.table_key();
}

}  // namespace daf
