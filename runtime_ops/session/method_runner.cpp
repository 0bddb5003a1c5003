#include "runtime_ops/session/method_runner.h"

#include "runtime_ops/ops/failure.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/log_capture.h"
#include "runtime_ops/session/program_operators.h"
#include "runtime_ops/session/scalar_types.h"

namespace daf {
namespace {

using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;
using executorch::runtime::Result;

std::string reason_of(Error error, const std::string& log) {
  return log.empty() ? executorch::runtime::to_string(error) : log;
}

}  // namespace

MethodRunner::MethodRunner(const std::string& path, const std::string& name, const MethodSpec& spec,
                           LoadedProgram& loaded, Spans& memory, Workspace& workspace)
    : path_(path),
      name_(name),
      spec_(spec),
      loaded_(loaded),
      workspace_(workspace),
      timer_(spec.phases),
      planned_({memory.data(), memory.size()}),
      manager_(&structures_, &planned_, &workspace) {
  const LogCapture log;
  Result<Method> method = loaded.program->load_method(name.c_str(), &manager_);
  if (!method.ok()) {
    throw DafError(Exit::kProgram, "cannot load " + path + ": its method " + name +
                                       " cannot be prepared (" +
                                       reason_of(method.error(), log.first_error()) +
                                       "); export it again with daf-export");
  }
  method_.emplace(std::move(method.get()));
  workspace.release();  // ExecuTorch takes some while it loads
}

void MethodRunner::set_input(size_t index, const ConstTensorView& input) {
  const size_t n_dims = input.spec.shape.size();
  std::vector<TensorImpl::SizesType> sizes(input.spec.shape.begin(), input.spec.shape.end());
  std::vector<TensorImpl::DimOrderType> dim_order(n_dims);
  std::vector<TensorImpl::StridesType> strides(n_dims);
  TensorImpl::StridesType stride = 1;
  for (size_t i = n_dims; i-- > 0; stride *= sizes[i]) {
    dim_order[i] = static_cast<TensorImpl::DimOrderType>(i);
    strides[i] = stride;
  }
  // ExecuTorch takes the shape and, as inputs are not in the memory plan, the pointer.
  TensorImpl tensor(scalar_type_of(input.spec.dtype), static_cast<ssize_t>(n_dims), sizes.data(),
                    const_cast<void*>(input.data), dim_order.data(), strides.data());
  const LogCapture log;
  const Error error = method_->set_input(EValue(Tensor(&tensor)), index);
  if (error != Error::Ok) {
    throw DafError(Exit::kData, "cannot run " + name_ + ": input '" + input.spec.name +
                                    "' is refused (" + reason_of(error, log.first_error()) + ")");
  }
}

void MethodRunner::execute() {
  const LogCapture log;
  take_failure();
  workspace_.count_instructions(timer_);
  const Error error = method_->execute();
  if (error != Error::Ok) fail_execution(error, log.first_error());
}

void MethodRunner::fail_execution(Error error, const std::string& log) const {
  std::string reason = take_failure();
  if (reason.empty()) {
    const std::string name =
        operator_at(loaded_.file->data(), name_, timer_.n_instructions_done() - 1);
    reason = name + (name.empty() ? "" : ": ") + reason_of(error, log);
  }
  const char* next_step = error == Error::MemoryAllocationFailed
                              ? "; export with a smaller batch"
                              : "; check the values of the inputs";
  throw DafError(Exit::kDevice, "cannot run " + name_ + " of " + path_ + ": " + reason + next_step);
}

std::vector<InstructionTime> MethodRunner::profile() const {
  std::vector<InstructionTime> times;
  for (int64_t i = 0; i < timer_.n_instructions_done(); ++i) {
    times.push_back({operator_at(loaded_.file->data(), name_, i), timer_.elapsed_ns(i)});
  }
  return times;
}

std::vector<ConstTensorView> MethodRunner::outputs() const {
  std::vector<ConstTensorView> views;
  for (size_t i = 0; i < spec_.outputs.size(); ++i) {
    const Tensor& tensor = method_->get_output(i).toTensor();
    const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
    views.push_back(
        {{spec_.outputs[i], *dtype_of(tensor.scalar_type()), shape}, tensor.const_data_ptr()});
  }
  return views;
}

}  // namespace daf
