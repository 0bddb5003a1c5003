// Trains an exported program: owns every byte it uses, takes batches, steps, saves and restores.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime_ops/gpu/hybrid_reducer.h"
#include "runtime_ops/session/channel_schedule.h"
#include "runtime_ops/session/checkpoint.h"
#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/memory_probe.h"
#include "runtime_ops/session/tensor_spec.h"

namespace daf {

struct PhaseTimes {
  int64_t forward_us = 0, backward_us = 0, update_us = 0;
};

struct StepResult {
  float loss = 0;  // may be NaN or infinite: that is for the host to judge
  int64_t total_us = 0;
  std::optional<PhaseTimes> phases;  // when the manifest says where they are
};

struct SessionOptions {
  int64_t seed = 0;
  // Arena, pool and workspace together never exceed it. Without one, the manifest's, if it has one.
  std::optional<int64_t> budget_bytes;
  std::optional<Importance> importance;  // the manifest's when not given
  // What finds the ranges of activations and decodes them. The bits of the result are the same.
  ReduceMode reduce = ReduceMode::kAuto;
  std::string reduce_table;  // file with what was learned in earlier runs; empty: none
};

struct InstructionTime {
  std::string operator_name;  // empty when the instruction calls none
  int64_t elapsed_ns;
};

// Not for use by several threads at once, but for trim(). All errors are DafErrors.
class TrainingSession {
 public:
  // Exit::kProgram when the program or its manifest cannot be used, Exit::kUsage when the budget is
  // too small: the message names the smallest that would do.
  TrainingSession(const std::string& program_path, const std::string& manifest_path,
                  const SessionOptions& options);
  ~TrainingSession();

  const Manifest& manifest() const;
  int64_t step_count() const;  // steps taken
  int64_t seed() const;

  // One training step. `inputs` are those of train_step in the manifest's order; they are read in
  // place and must be contiguous. Without `lr`, the manifest's. Exit::kData when the inputs do not
  // fit, Exit::kDevice when a kernel fails.
  StepResult step(const std::vector<ConstTensorView>& inputs, std::optional<float> lr);

  // The last choice of channels, once: of the start, or of the last step.
  std::optional<Rotation> take_rotation();

  // The instructions of the last step, in their order.
  std::vector<InstructionTime> profile() const;

  // Of the last step, by the manifest's names. Valid until the next step or prediction; an error
  // after that.
  std::vector<ConstTensorView> outputs() const;

  // Valid until the next step or prediction.
  std::vector<ConstTensorView> predict(const std::vector<ConstTensorView>& inputs);

  // Where parameters, buffers and optimizer state lie.
  std::vector<StateView> state() const;
  // Copies tensors into the state; those that are not given keep their values. Exit::kWeights.
  void set_state(const std::vector<ConstTensorView>& tensors);

  void save(const std::string& path) const;  // Exit::kOutput
  void restore(const std::string& path);     // Exit::kWeights
  MemoryParts memory() const;

  // Sets the budget at once, from any thread, in the middle of a step too: planes of the least
  // important activations are dropped. Less than the floor is raised to it; returns what is in
  // force now. Without a store the budget has no effect.
  int64_t trim(int64_t budget_bytes);
  // Null when the program stores nothing. For statistics and observers.
  ActivationStore* store();
  // Null when the program stores nothing.
  HybridReducer* reducer();
  // Keeps what was learned in the file of the options, if there is one; failing to is no error.
  void save_reduce_table() const;
  // Restarts the store with these bits per entry, and without a budget. For calibration.
  void set_bits(const std::vector<int>& bits);
  // The seed of stochastic rounding; that of the session unless set.
  void set_rounding_seed(int64_t seed);
  void set_step_count(int64_t step_count);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The kernels registered in this process, DAF's own included.
std::vector<std::string> operator_names();

}  // namespace daf
