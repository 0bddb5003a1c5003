// What the session needs to know about a program: the parsed and checked manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime_ops/session/json.h"
#include "runtime_ops/session/phase_timer.h"
#include "runtime_ops/session/tensor_spec.h"
#include "runtime_ops/store/store.h"

namespace daf {

inline constexpr int64_t kManifestSchema = 1;
inline constexpr int64_t kStoreSchema = 5;  // of the plan, the recipes and the encoding

// kIndex: what the session chooses channels by (channel_schedule.h).
enum class StateKind { kParameter, kBuffer, kOptimizer, kIndex };
inline bool is_weight(StateKind kind) {
  return kind == StateKind::kParameter || kind == StateKind::kBuffer;
}

struct StateTensor {
  TensorSpec spec;  // named as in checkpoints: `layer.weight`, or `<parameter>.<slot>`
  StateKind kind = StateKind::kParameter;
  int64_t offset = 0;     // in the memory of the state
  std::string parameter;  // that it belongs to, of kOptimizer and kIndex
};

// Inputs that the session itself provides, after the data inputs.
enum class RuntimeInput { kLr, kClock };

struct MethodSpec {
  std::vector<TensorSpec> inputs;
  std::vector<RuntimeInput> runtime_inputs;
  std::vector<std::string> outputs;
  std::vector<PhaseRun> phases;  // empty when the manifest has none
};

// By what the store shares its bits: the same for every element, sensitivities that the exporter
// measured, or what the gradients of the running training show.
enum class Importance { kUniform, kCalibrated, kGradient };
std::optional<Importance> importance_named(const std::string& name);

// What the activation store holds during a step; no entries when the program keeps all as it is.
struct StorePlan {
  std::vector<StoreEntry> entries;
  Importance importance = Importance::kUniform;
  int64_t chunk_bytes = 0;  // what readers of the store take beside the kernels' workspace
  std::optional<int64_t>
      budget_bytes;  // for arena, pool and workspace, unless the host says another

  int64_t planned_pool_bytes() const;
};

// By what channels are drawn: the norm of their weights, that of their gradients, or nothing.
enum class ChannelSelection { kNorm, kGradient, kRandom };

// A weight of which some channels train at a time: `n_channels` equal parts of `axis`.
struct UpdateLayer {
  std::string name, parameter;
  int64_t axis = 0, n_channels = 0, n_chosen = 0;
};

// No layers when what trains, trains whole.
struct UpdatePlan {
  std::vector<UpdateLayer> layers;
  ChannelSelection selection = ChannelSelection::kNorm;
  int64_t rotate_every = 0;  // steps; 0: never
};

struct Manifest {
  std::string program_file;
  int64_t program_size_bytes = 0;
  std::string program_sha256;
  std::string model_name;
  int64_t batch_size = 0;
  bool dynamic_batch = false;
  double lr = 0;  // 0 when the program has no optimizer
  MethodSpec train_step;
  MethodSpec predict;
  int64_t state_memory_id = 0;  // ids count from 1
  int64_t state_size_bytes = 0;
  std::vector<StateTensor> state;
  Json activations = Json::Array{};  // kept for backward: names, schemes and sizes
  StorePlan store;
  UpdatePlan update;
  Json memory_plan;                                  // the exporter's prediction, as it is
  int64_t activation_bytes = 0, gradient_bytes = 0;  // of it

  // Throws FormatError.
  static Manifest parse(const std::string& text);
  // Throws DafError with Exit::kProgram.
  static Manifest load(const std::string& path);
};

}  // namespace daf
