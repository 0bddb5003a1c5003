// One method of a program, loaded: inputs are set, it is executed, outputs are read.
#pragma once

#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime_ops/session/manifest.h"
#include "runtime_ops/session/program_loader.h"
#include "runtime_ops/session/session.h"
#include "runtime_ops/session/workspace.h"

namespace daf {

class MethodRunner {
 public:
  using Spans = std::vector<executorch::runtime::Span<uint8_t>>;

  // `path` is for messages. All arguments must outlive this. Loading writes the initial values
  // that the method has into `memory`. Throws DafError with Exit::kProgram.
  MethodRunner(const std::string& path, const std::string& name, const MethodSpec& spec,
               LoadedProgram& loaded, Spans& memory, Workspace& workspace);

  // The memory of the input must stay until execute() has returned.
  void set_input(size_t index, const ConstTensorView& input);
  // Throws DafError with Exit::kDevice that names the operator; the next execution starts afresh.
  void execute();
  // By the manifest's names, where they lie in the arena.
  std::vector<ConstTensorView> outputs() const;
  // Of the last execution.
  const PhaseTimer& timer() const { return timer_; }
  std::vector<InstructionTime> profile() const;

 private:
  [[noreturn]] void fail_execution(executorch::runtime::Error error, const std::string& log) const;

  const std::string& path_;
  std::string name_;
  const MethodSpec& spec_;
  const LoadedProgram& loaded_;
  Workspace& workspace_;
  PhaseTimer timer_;
  Workspace structures_{4096};
  executorch::runtime::HierarchicalAllocator planned_;
  executorch::runtime::MemoryManager manager_;
  std::optional<executorch::runtime::Method> method_;
};

}  // namespace daf
