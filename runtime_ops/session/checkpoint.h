// Weights and optimizer state as files, from which a run continues bit for bit.
//
// W.safetensors holds parameters and buffers under PyTorch's names; what else a run needs is in
// W.optim-<step>.safetensors, which the first file names in its metadata. The second is written
// first and never replaces one that is there, and older ones are removed last: a crash at any
// moment leaves a complete pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/tensor_spec.h"

namespace daf {

// A piece of a session's state, where it lies.
struct StateView {
  TensorSpec spec;
  StateKind kind = StateKind::kParameter;
  void* data = nullptr;
  std::string parameter = {};  // that it belongs to, if it is not one
};

struct CheckpointInfo {
  int64_t step = 0;
  int64_t seed = 0;
  std::string program_sha256;
  std::string model_name;
  std::vector<double> sensitivities;  // of the activation store, when they are measured on the way
};

// Throws DafError with Exit::kOutput.
void save_checkpoint(const std::string& path, const std::vector<StateView>& state,
                     const CheckpointInfo& info);

// Checks both files against `state`, then fills it. Throws DafError with Exit::kWeights; `state`
// is untouched then, unless a file cannot be read to its end.
CheckpointInfo restore_checkpoint(const std::string& path, const std::vector<StateView>& state);

}  // namespace daf
