#include "runtime_ops/session/program_check.h"

#include <executorch/runtime/executor/method_meta.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <algorithm>
#include <set>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/log_capture.h"
#include "runtime_ops/session/program_operators.h"
#include "runtime_ops/session/scalar_types.h"

namespace daf {
namespace {

using executorch::runtime::MethodMeta;
using executorch::runtime::Result;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DafError(Exit::kProgram, "cannot load " + path + ": " + reason +
                                     "; re-export with this version of daf-export");
}

void check_operators(const std::string& path, const uint8_t* program) {
  std::set<std::string> registered;
  for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
    registered.insert(kernel.name_);
  }
  std::set<std::string> missing;
  for (const char* method : {"train_step", "predict"}) {
    for (const std::string& name : operators_of(program, method)) {
      if (registered.count(name) == 0) missing.insert(name);
    }
  }
  if (missing.empty()) return;
  std::string list;
  for (const std::string& name : missing) list += (list.empty() ? "" : ", ") + name;
  fail(path, std::string("it needs operator") + (missing.size() > 1 ? "s " : " ") + list +
                 ", which this runtime does not have");
}

// The tensors that the manifest promises to be inputs, those of the runtime included.
std::vector<TensorSpec> all_inputs(const MethodSpec& method) {
  std::vector<TensorSpec> inputs = method.inputs;
  for (const RuntimeInput input : method.runtime_inputs) {
    inputs.push_back(input == RuntimeInput::kLr ? TensorSpec{"lr", DType::kFloat32, {1}}
                                                : TensorSpec{"clock", DType::kInt64, {2}});
  }
  return inputs;
}

// What the program says about a tensor, in the words of the manifest.
std::optional<TensorSpec> describe(const std::string& name, const Result<TensorInfo>& info) {
  if (!info.ok() || !dtype_of(info->scalar_type())) return std::nullopt;
  // Only PyTorch's default layout: the session copies tensors as they lie.
  if (!std::is_sorted(info->dim_order().begin(), info->dim_order().end())) return std::nullopt;
  return TensorSpec{name, *dtype_of(info->scalar_type()),
                    Shape(info->sizes().begin(), info->sizes().end())};
}

class MethodCheck {
 public:
  MethodCheck(const std::string& path, const std::string& name, const LoadedProgram& loaded,
              const MethodMeta& meta)
      : path_(path), name_(name), loaded_(loaded), meta_(meta) {}

  void run(const MethodSpec& method) const {
    const std::vector<TensorSpec> inputs = all_inputs(method);
    check_count("inputs", inputs.size(), meta_.num_inputs());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto found = describe(inputs[i].name, meta_.input_tensor_meta(i));
      const std::string expected = inputs[i].type_and_shape();
      if (!found || found->type_and_shape() != expected) {
        refuse("input '" + inputs[i].name + "' of " + name_ + " is " +
               (found ? found->type_and_shape() : "of an unknown kind") + ", the manifest says " +
               expected);
      }
    }
    check_count("outputs", method.outputs.size(), meta_.num_outputs());
    for (size_t i = 0; i < method.outputs.size(); ++i) {
      const auto found = describe(method.outputs[i], meta_.output_tensor_meta(i));
      if (!found)
        refuse("output '" + method.outputs[i] + "' of " + name_ + " is of an unknown kind");
    }
    check_phases(method.phases);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    fail(path_, "it is not what its manifest describes: " + reason);
  }

  template <class Count>
  void check_count(const char* what, Count expected, Count found) const {
    if (expected == found) return;
    refuse(name_ + " has " + std::to_string(found) + " " + what + ", the manifest says " +
           std::to_string(expected));
  }

  void check_phases(const std::vector<PhaseRun>& phases) const {
    if (phases.empty()) return;
    int64_t n_instructions = 0;
    for (const PhaseRun& run : phases) n_instructions += run.n_instructions;
    check_count("instructions", n_instructions, n_instructions_of(loaded_.file->data(), name_));
  }

  const std::string& path_;
  std::string name_;
  const LoadedProgram& loaded_;
  const MethodMeta& meta_;
};

void check_loss(const std::string& path, const MethodMeta& train_step) {
  const auto loss = describe("loss", train_step.output_tensor_meta(0));
  if (loss->dtype != DType::kFloat32 || loss->size_bytes() != sizeof(float)) {
    fail(path, "its loss is " + loss->type_and_shape() + ", not one float32");
  }
}

}  // namespace

std::vector<size_t> check_program(const std::string& path, const LoadedProgram& loaded,
                                  const Manifest& manifest) {
  const LogCapture log;
  check_operators(path, loaded.file->data());
  std::vector<size_t> sizes;
  for (const char* name : {"train_step", "predict"}) {
    const Result<MethodMeta> meta = loaded.program->method_meta(name);
    if (!meta.ok()) fail(path, std::string("it has no method ") + name);
    const bool trains = name == std::string("train_step");
    MethodCheck(path, name, loaded, meta.get())
        .run(trains ? manifest.train_step : manifest.predict);
    if (trains) check_loss(path, meta.get());
    sizes.resize(std::max(sizes.size(), meta->num_memory_planned_buffers()));
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      const Result<int64_t> size_bytes = meta->memory_planned_buffer_size(i);
      if (!size_bytes.ok() || size_bytes.get() < 0) fail(path, "its memory plan is damaged");
      sizes[i] = std::max(sizes[i], static_cast<size_t>(size_bytes.get()));
    }
  }
  const auto id = static_cast<size_t>(manifest.state_memory_id);
  if (!manifest.state.empty() && (id < 1 || id > sizes.size() ||
                                  sizes[id - 1] < static_cast<size_t>(manifest.state_size_bytes))) {
    fail(path, "it is not what its manifest describes: the state does not fit memory id " +
                   std::to_string(id));
  }
  return sizes;
}

}  // namespace daf
