// A call of one registered kernel outside of any program, as benchmarks need it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime_ops/session/tensor_spec.h"

namespace daf {

class OperatorCall {
 public:
  // No value is None. Tensors are read and written in place; their memory must outlive this.
  using Argument = std::variant<std::monostate, bool, int64_t, double, std::string,
                                std::vector<int64_t>, ConstTensorView>;

  // `name` is as in operator_names(): "daf::gemm.out". The arguments are those of its schema, then
  // its out tensors. Throws DafError with Exit::kUsage when there is no such kernel.
  OperatorCall(const std::string& name, std::vector<Argument> arguments);
  ~OperatorCall();

  // Throws DafError with Exit::kDevice when the kernel refuses its arguments.
  void run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace daf
