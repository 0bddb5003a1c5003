#include "runtime_ops/session/session.h"

#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/ops/current_store.h"
#include "runtime_ops/ops/register.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/method_runner.h"
#include "runtime_ops/session/planned_memory.h"
#include "runtime_ops/session/program_check.h"
#include "runtime_ops/session/reduce_table.h"

namespace daf {
namespace {

void start_runtime() {
  executorch::runtime::runtime_init();
  register_ops();
}

LoadedProgram start_and_load(const std::string& path, const Manifest& manifest) {
  start_runtime();
  return load_program(path, manifest);
}

// Every 50 steps: it costs a pass over the gradients. Before that after 1, 2, 4, ... steps, as what
// matters changes fast while a training begins (weights of LoRA that start from zero pass nothing).
bool measures_importance(int64_t step) {
  constexpr int64_t kPeriod = 50;
  return step % kPeriod == 0 || (step < kPeriod && (step & (step - 1)) == 0);
}

[[noreturn]] void refuse_inputs(const std::string& method, const std::string& reason) {
  throw DafError(Exit::kData, "cannot run " + method + ": " + reason);
}

// The batch may be smaller than the manifest's, the same for all inputs, when it is dynamic.
void check_inputs(const std::string& method, const Manifest& manifest,
                  const std::vector<TensorSpec>& expected,
                  const std::vector<ConstTensorView>& inputs) {
  if (inputs.size() != expected.size()) {
    refuse_inputs(method, "it takes " + std::to_string(expected.size()) + " inputs, found " +
                              std::to_string(inputs.size()) +
                              "; pass them in the manifest's order");
  }
  const Shape& first = inputs.empty() ? Shape() : inputs[0].spec.shape;
  const bool smaller =
      manifest.dynamic_batch && !first.empty() && first[0] >= 1 && first[0] < manifest.batch_size;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorSpec wanted = expected[i];
    if (smaller) wanted.shape[0] = first[0];
    const TensorSpec& found = inputs[i].spec;
    if (found.dtype != wanted.dtype || found.shape != wanted.shape) {
      refuse_inputs(method, "input '" + wanted.name + "' must be " + wanted.type_and_shape() +
                                (manifest.dynamic_batch && !smaller ? " or a smaller batch" : "") +
                                ", found " + found.type_and_shape() + "; convert or reshape it");
    }
  }
}

}  // namespace

class TrainingSession::Impl {
 public:
  Impl(const std::string& program_path, const std::string& manifest_path,
       const SessionOptions& options)
      : path_(program_path),
        manifest_(Manifest::load(manifest_path)),
        loaded_(start_and_load(program_path, manifest_)),
        workspace_(max_scratch_bytes() + static_cast<size_t>(manifest_.store.chunk_bytes)),
        budget_bytes_(options.budget_bytes ? options.budget_bytes : manifest_.store.budget_bytes),
        importance_(options.importance.value_or(manifest_.store.importance)),
        reduce_table_(options.reduce_table),
        seed_(options.seed),
        rounding_seed_(options.seed) {
    check_importance();
    for (const size_t size_bytes : check_program(path_, loaded_, manifest_)) {
      memory_.emplace_back(size_bytes);
      spans_.push_back({memory_.back().data(), size_bytes});
    }
    if (!manifest_.store.entries.empty()) start_reducer(options.reduce);
    start_store();
    // Loading train_step gives the weights their initial values.
    train_step_.emplace(path_, "train_step", manifest_.train_step, loaded_, spans_, workspace_);
    if (!manifest_.update.layers.empty()) start_channels();
  }

  const Manifest& manifest() const { return manifest_; }
  int64_t step_count() const { return step_count_; }
  int64_t seed() const { return seed_; }

  StepResult step(const std::vector<ConstTensorView>& inputs, std::optional<float> lr) {
    const auto start = std::chrono::steady_clock::now();
    check_inputs("train_step", manifest_, manifest_.train_step.inputs, inputs);
    lr_ = lr.value_or(static_cast<float>(manifest_.lr));
    outputs_are_valid_ = false;
    if (channels_ && channels_->is_due(step_count_)) {
      rotation_ = channels_->choose(seed_, step_count_);
    }
    run_with_store(inputs);
    outputs_are_valid_ = true;
    ++step_count_;

    StepResult result;
    result.loss = *static_cast<const float*>(train_step_->outputs()[0].data);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    result.total_us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count();
    if (!manifest_.train_step.phases.empty()) {
      const PhaseTimer& timer = train_step_->timer();
      result.phases =
          PhaseTimes{timer.elapsed_us(Phase::kForward), timer.elapsed_us(Phase::kBackward),
                     timer.elapsed_us(Phase::kUpdate)};
    }
    return result;
  }

  std::optional<Rotation> take_rotation() { return std::exchange(rotation_, std::nullopt); }

  std::vector<InstructionTime> profile() const { return train_step_->profile(); }

  std::vector<ConstTensorView> outputs() const {
    if (!outputs_are_valid_) {
      throw DafError(Exit::kUsage,
                     "cannot read the outputs of train_step: no step was run, or predict() has "
                     "reused their memory; read them right after step()");
    }
    return train_step_->outputs();
  }

  std::vector<ConstTensorView> predict(const std::vector<ConstTensorView>& inputs) {
    check_inputs("predict", manifest_, manifest_.predict.inputs, inputs);
    // Loaded when it is first needed: training alone does without its memory.
    if (!predict_) {
      predict_.emplace(path_, "predict", manifest_.predict, loaded_, spans_, workspace_);
    }
    outputs_are_valid_ = false;
    run(*predict_, manifest_.predict, inputs);
    return predict_->outputs();
  }

  std::vector<StateView> state() const {
    std::vector<StateView> views;
    if (manifest_.state.empty()) return views;
    uint8_t* base = memory_[static_cast<size_t>(manifest_.state_memory_id - 1)].data();
    for (const StateTensor& tensor : manifest_.state) {
      views.push_back({tensor.spec, tensor.kind, base + tensor.offset, tensor.parameter});
    }
    return views;
  }

  void set_state(const std::vector<ConstTensorView>& tensors) {
    std::map<std::string, StateView> targets;
    for (StateView& view : state()) targets.emplace(view.spec.name, view);
    const auto refuse = [&](const std::string& reason) {
      throw DafError(Exit::kWeights, "cannot set the state of " + path_ + ": " + reason +
                                         "; use the program these weights belong to");
    };
    for (const ConstTensorView& tensor : tensors) {
      const auto target = targets.find(tensor.spec.name);
      if (target == targets.end()) {
        refuse("it has no '" + tensor.spec.name + "'");
      } else if (target->second.spec.type_and_shape() != tensor.spec.type_and_shape()) {
        refuse("'" + tensor.spec.name + "' must be " + target->second.spec.type_and_shape() +
               ", found " + tensor.spec.type_and_shape());
      }
    }
    for (const ConstTensorView& tensor : tensors) {
      std::memcpy(targets[tensor.spec.name].data, tensor.data,
                  static_cast<size_t>(tensor.spec.size_bytes()));
    }
  }

  void save(const std::string& path) const {
    save_checkpoint(
        path, state(),
        {step_count_, seed_, manifest_.program_sha256, manifest_.model_name, measured_importance_});
  }

  void restore(const std::string& path) {
    const CheckpointInfo info = restore_checkpoint(path, state());
    step_count_ = info.step;
    seed_ = info.seed;
    rotation_.reset();  // of the state that was
    if (importance_ == Importance::kGradient &&
        info.sensitivities.size() == manifest_.store.entries.size()) {
      set_importance(info.sensitivities);
    }
  }

  MemoryParts memory() const {
    MemoryParts parts;
    for (const StateTensor& tensor : manifest_.state) {
      (is_weight(tensor.kind) ? parts.weights : parts.optimizer) += tensor.spec.size_bytes();
    }
    parts.arena = arena_bytes();
    parts.activations = manifest_.activation_bytes;
    if (store_) {
      const StoreStats stats = store_->stats();
      parts.pool = static_cast<int64_t>(stats.committed_bytes);
      parts.activations +=
          static_cast<int64_t>(stats.peak_used_bytes) - manifest_.store.planned_pool_bytes();
    }
    parts.gradients = manifest_.gradient_bytes;
    parts.constants = static_cast<int64_t>(loaded_.file->constant_bytes());
    parts.workspace = static_cast<int64_t>(workspace_.peak_bytes());
    for (const TensorSpec& input : manifest_.train_step.inputs) parts.batch += input.size_bytes();
    return parts;
  }

  int64_t trim(int64_t budget_bytes) {
    if (!store_) return budget_bytes;
    const int64_t fixed = fixed_bytes();
    const auto pool = static_cast<size_t>(std::max<int64_t>(0, budget_bytes - fixed));
    return fixed + static_cast<int64_t>(store_->trim(pool));
  }

  ActivationStore* store() { return store_.get(); }
  HybridReducer* reducer() { return reducer_.get(); }

  void save_reduce_table() const {
    const bool has_learned =
        reducer_ && reducer_->mode() == ReduceMode::kAuto && reducer_->has_gpu();
    if (has_learned && !reduce_table_.empty()) {
      daf::save_reduce_table(reduce_table_, reducer_->table_key(), reducer_->table());
    }
  }

  void set_bits(const std::vector<int>& bits) {
    std::vector<StoreEntry>& entries = manifest_.store.entries;
    if (bits.size() != entries.size()) {
      throw DafError(Exit::kUsage, "cannot set the bits: the program stores " +
                                       std::to_string(entries.size()) + " activations, found " +
                                       std::to_string(bits.size()) + " numbers");
    }
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i] < 1 || bits[i] > 8) {
        throw DafError(Exit::kUsage, "cannot set the bits of " + entries[i].name + " to " +
                                         std::to_string(bits[i]) + ": expected 1 to 8");
      }
      entries[i].bits = bits[i];
      entries[i].min_bits = std::min(entries[i].min_bits, bits[i]);
    }
    budget_bytes_.reset();
    start_store();
  }

  void set_rounding_seed(int64_t seed) { rounding_seed_ = seed; }
  void set_step_count(int64_t step_count) { step_count_ = step_count; }

 private:
  int64_t arena_bytes() const {
    int64_t size_bytes = 0;
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!is_state(i)) size_bytes += static_cast<int64_t>(memory_[i].size_bytes());
    }
    return size_bytes;
  }

  bool is_state(size_t i) const {
    return !manifest_.state.empty() && static_cast<int64_t>(i) == manifest_.state_memory_id - 1;
  }

  // Of a budget: what does not give way.
  int64_t fixed_bytes() const {
    return arena_bytes() + static_cast<int64_t>(max_scratch_bytes()) + manifest_.store.chunk_bytes;
  }

  void check_importance() const {
    if (importance_ == Importance::kCalibrated && !manifest_.store.entries.empty() &&
        manifest_.store.importance != Importance::kCalibrated) {
      throw DafError(Exit::kUsage, "cannot run " + path_ +
                                       " with calibrated importance: it was not calibrated; export "
                                       "it with daf-export --calibrate 4");
    }
  }

  // The plan of the store: that of the manifest, or one in which the same bytes are shared anew.
  std::vector<StoreEntry> entries_to_store() const {
    std::vector<StoreEntry> entries = manifest_.store.entries;
    const bool shares_anew =
        importance_ != manifest_.store.importance || importance_ == Importance::kGradient;
    for (StoreEntry& entry : entries) {
      if (importance_ == Importance::kUniform) {
        entry.sensitivity = static_cast<double>(entry.n_elements);
      }
      if (shares_anew) entry.bits = kMaxPlanes;
    }
    return entries;
  }

  void start_channels() {
    try {
      channels_.emplace(manifest_.update, state());
    } catch (const FormatError& error) {
      throw DafError(Exit::kProgram, "cannot load " + path_ + ": " + error.what() +
                                         "; re-export with this version of daf-export");
    }
    rotation_ = channels_->choose(seed_, step_count_);
  }

  void start_reducer(ReduceMode mode) {
    HybridOptions options;
    options.mode = mode;
    options.gpu = gpu_options_from_environment();
    reducer_ = std::make_unique<HybridReducer>(options);
    if (!reduce_table_.empty()) {
      reducer_->load_table(load_reduce_table(reduce_table_, reducer_->table_key()));
    }
    // What forward computes is found in the arena.
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!is_state(i)) reducer_->share(memory_[i].data(), memory_[i].size_bytes());
    }
  }

  void start_store() {
    const std::vector<StoreEntry> entries = entries_to_store();
    const int64_t floor =
        entries.empty() ? 0 : static_cast<int64_t>(ActivationStore::floor_bytes(entries));
    if (budget_bytes_ && *budget_bytes_ < fixed_bytes() + floor) {
      throw DafError(Exit::kUsage,
                     "cannot run " + path_ + " within " + std::to_string(*budget_bytes_) +
                         " bytes: arena and workspace take " + std::to_string(fixed_bytes()) +
                         " and the activations at one bit each " + std::to_string(floor) +
                         "; the smallest budget is " + std::to_string(fixed_bytes() + floor) +
                         " bytes");
    }
    if (entries.empty()) return;
    StoreOptions options;
    if (budget_bytes_) {
      options.budget_bytes = static_cast<size_t>(*budget_bytes_ - fixed_bytes());
    } else {  // room for groups that must be kept exact; addresses only, until they are needed
      options.budget_bytes = ActivationStore::planned_bytes(manifest_.store.entries);
      for (const StoreEntry& entry : entries) {
        options.budget_bytes += static_cast<size_t>(entry.n_elements) * 2 * sizeof(float);
      }
    }
    options.fit_bytes = ActivationStore::planned_bytes(manifest_.store.entries);
    store_ = std::make_unique<ActivationStore>(entries, options);
    if (reducer_->has_gpu()) store_->set_reducer(reducer_.get());
  }

  void run_with_store(const std::vector<ConstTensorView>& inputs) {
    const bool measures =
        store_ && importance_ == Importance::kGradient && measures_importance(step_count_);
    std::vector<double> importance(measures ? manifest_.store.entries.size() : 0);
    const UseStore use(store_.get(), measures ? &importance : nullptr);
    if (store_) {
      store_->begin_step(static_cast<uint64_t>(rounding_seed_), static_cast<uint64_t>(step_count_));
    }
    try {
      run(*train_step_, manifest_.train_step, inputs);
    } catch (...) {
      if (store_) store_->release_all();
      throw;
    }
    if (measures) set_importance(std::move(importance));
  }

  // What is measured knows what an error does to the next gradient, not what becomes of it further
  // back: it can be off by a factor of 100. Its power, per element, moves fewer bits (the squared
  // error of MiniLM's gradients at 4 bits on average: 0.010; as measured 0.016, uniform 0.032).
  void set_importance(std::vector<double> importance) {
    constexpr double kTrust = 0.75;
    for (size_t i = 0; i < importance.size(); ++i) {
      const auto n = static_cast<double>(manifest_.store.entries[i].n_elements);
      store_->set_sensitivity(static_cast<int>(i), n * std::pow(importance[i] / n, kTrust));
    }
    measured_importance_ = std::move(importance);
  }

  void run(MethodRunner& method, const MethodSpec& spec,
           const std::vector<ConstTensorView>& inputs) {
    size_t index = 0;
    for (const ConstTensorView& input : inputs) method.set_input(index++, input);
    clock_[0] = step_count_;
    clock_[1] = seed_;
    for (const RuntimeInput input : spec.runtime_inputs) {
      if (input == RuntimeInput::kLr) {
        method.set_input(index++, {{"lr", DType::kFloat32, {1}}, &lr_});
      } else {
        method.set_input(index++, {{"clock", DType::kInt64, {2}}, clock_});
      }
    }
    method.execute();
  }

  std::string path_;
  Manifest manifest_;
  LoadedProgram loaded_;
  std::vector<PlannedMemory> memory_;  // by memory id, from 1; both methods share it
  MethodRunner::Spans spans_;
  Workspace workspace_;
  std::optional<int64_t> budget_bytes_;
  Importance importance_;
  std::vector<double> measured_importance_;  // empty before the first measurement, by entry
  const std::string reduce_table_;
  std::unique_ptr<HybridReducer> reducer_;
  std::unique_ptr<ActivationStore> store_;
  std::optional<MethodRunner> train_step_, predict_;
  std::optional<ChannelSchedule> channels_;
  std::optional<Rotation> rotation_;  // not yet taken
  int64_t step_count_ = 0;
  int64_t seed_, rounding_seed_;
  float lr_ = 0;
  int64_t clock_[2] = {};
  bool outputs_are_valid_ = false;
};

TrainingSession::TrainingSession(const std::string& program_path, const std::string& manifest_path,
                                 const SessionOptions& options)
    : impl_(std::make_unique<Impl>(program_path, manifest_path, options)) {}
TrainingSession::~TrainingSession() = default;

const Manifest& TrainingSession::manifest() const { return impl_->manifest(); }
int64_t TrainingSession::step_count() const { return impl_->step_count(); }
int64_t TrainingSession::seed() const { return impl_->seed(); }
StepResult TrainingSession::step(const std::vector<ConstTensorView>& inputs,
                                 std::optional<float> lr) {
  return impl_->step(inputs, lr);
}
std::optional<Rotation> TrainingSession::take_rotation() { return impl_->take_rotation(); }
std::vector<InstructionTime> TrainingSession::profile() const { return impl_->profile(); }
std::vector<ConstTensorView> TrainingSession::outputs() const { return impl_->outputs(); }
std::vector<ConstTensorView> TrainingSession::predict(const std::vector<ConstTensorView>& inputs) {
  return impl_->predict(inputs);
}
std::vector<StateView> TrainingSession::state() const { return impl_->state(); }
void TrainingSession::set_state(const std::vector<ConstTensorView>& tensors) {
  impl_->set_state(tensors);
}
void TrainingSession::save(const std::string& path) const { impl_->save(path); }
void TrainingSession::restore(const std::string& path) { impl_->restore(path); }
MemoryParts TrainingSession::memory() const { return impl_->memory(); }
int64_t TrainingSession::trim(int64_t budget_bytes) { return impl_->trim(budget_bytes); }
ActivationStore* TrainingSession::store() { return impl_->store(); }
HybridReducer* TrainingSession::reducer() { return impl_->reducer(); }
void TrainingSession::save_reduce_table() const { impl_->save_reduce_table(); }
void TrainingSession::set_bits(const std::vector<int>& bits) { impl_->set_bits(bits); }
void TrainingSession::set_rounding_seed(int64_t seed) { impl_->set_rounding_seed(seed); }
void TrainingSession::set_step_count(int64_t step_count) { impl_->set_step_count(step_count); }

std::vector<std::string> operator_names() {
  start_runtime();
  std::vector<std::string> names;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    names.push_back(kernel.name_);
  }
  return names;
}

}  // namespace daf
