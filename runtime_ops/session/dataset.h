// A data file as batches: which samples a step gets, and their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/safetensors.h"

namespace daf {

// A permutation of [0, n_samples) that depends on the arguments alone.
std::vector<int64_t> epoch_order(uint64_t seed, uint64_t epoch, int64_t n_samples);

// Batches are a function of the step number: a resumed run needs no other place in the data.
class Dataset {
 public:
  // Throws DafError with Exit::kData unless the file has exactly the inputs of train_step and
  // enough samples for a batch.
  Dataset(const std::string& path, const Manifest& manifest, uint64_t seed, bool shuffle);

  int64_t n_samples() const { return n_samples_; }
  int64_t batches_per_epoch() const;

  // The inputs of train_step for the step after `steps_taken` others. Valid until the next call.
  // Only the last batch of an epoch may be smaller, and only with a dynamic batch.
  const std::vector<ConstTensorView>& batch(int64_t steps_taken);

 private:
  struct Input {
    const SafetensorsEntry* entry;
    size_t sample_bytes;
    // 64-bit words: aligned for every dtype.
    std::vector<uint64_t> buffer;
  };

  void check_inputs(const Manifest& manifest);

  std::string path_;
  SafetensorsFile file_;
  int64_t batch_size_;
  bool dynamic_batch_;
  uint64_t seed_;
  bool shuffle_;
  int64_t n_samples_ = 0;
  std::vector<Input> inputs_;
  std::vector<ConstTensorView> views_;
  std::vector<int64_t> order_;  // of epoch_; empty when samples come as they lie
  int64_t epoch_ = -1;
};

}  // namespace daf
