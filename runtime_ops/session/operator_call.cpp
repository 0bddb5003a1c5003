#include "runtime_ops/session/operator_call.h"

#include <executorch/runtime/kernel/kernel_runtime_context.h>
#include <executorch/runtime/kernel/operator_registry.h>

#include <deque>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/ops/failure.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/log_capture.h"
#include "runtime_ops/session/scalar_types.h"
#include "runtime_ops/session/session.h"
#include "runtime_ops/session/workspace.h"

namespace daf {

using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::OpFunction;

class OperatorCall::Impl {
 public:
  Impl(const std::string& name, std::vector<Argument> arguments)
      : name_(name), arguments_(std::move(arguments)) {
    operator_names();  // registers them
    for (const auto& kernel : executorch::runtime::get_registered_kernels()) {
      if (name == kernel.name_) function_ = kernel.op_;
    }
    if (function_ == nullptr) {
      throw DafError(
          Exit::kUsage,
          "cannot call " + name + ": no such kernel is registered; operator_names() lists them");
    }
    for (Argument& argument : arguments_) {
      values_.push_back(std::visit([this](auto& value) { return wrap(value); }, argument));
    }
    values_.emplace_back();  // what the kernel returns
    for (EValue& value : values_) stack_.push_back(&value);
  }

  void run() {
    const LogCapture log;
    take_failure();
    KernelRuntimeContext context(nullptr, &workspace_);
    function_(context, {stack_.data(), stack_.size()});
    workspace_.reset();
    if (context.failure_state() == Error::Ok) return;
    const std::string reason = take_failure();
    throw DafError(Exit::kDevice, "cannot call " + name_ + ": " +
                                      (reason.empty() ? log.first_error() : reason) +
                                      "; check its arguments");
  }

 private:
  struct IntList {
    std::deque<EValue> values;
    std::vector<EValue*> wrapped;
    std::vector<int64_t> unwrapped;
    BoxedEvalueList<int64_t> list;
  };
  struct TensorStorage {
    std::vector<TensorImpl::SizesType> sizes;
    std::vector<TensorImpl::DimOrderType> dim_order;
    std::vector<TensorImpl::StridesType> strides;
    std::unique_ptr<TensorImpl> tensor;
  };

  EValue wrap(std::monostate) { return EValue(); }
  EValue wrap(bool value) { return EValue(value); }
  EValue wrap(int64_t value) { return EValue(value); }
  EValue wrap(double value) { return EValue(value); }
  EValue wrap(std::string& value) {
    return EValue(&texts_.emplace_back(value.data(), value.size()));
  }

  EValue wrap(std::vector<int64_t>& values) {
    IntList& list = lists_.emplace_back();
    list.unwrapped.resize(values.size());
    for (int64_t value : values) list.wrapped.push_back(&list.values.emplace_back(value));
    list.list = {list.wrapped.data(), list.unwrapped.data(), static_cast<int>(values.size())};
    return EValue(&list.list);
  }

  EValue wrap(ConstTensorView& view) {
    TensorStorage& storage = tensors_.emplace_back();
    const Shape& shape = view.spec.shape;
    storage.sizes.assign(shape.begin(), shape.end());
    storage.dim_order.resize(shape.size());
    storage.strides.resize(shape.size());
    TensorImpl::StridesType stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= storage.sizes[i]) {
      storage.dim_order[i] = static_cast<TensorImpl::DimOrderType>(i);
      storage.strides[i] = stride;
    }
    storage.tensor = std::make_unique<TensorImpl>(
        scalar_type_of(view.spec.dtype), static_cast<ssize_t>(shape.size()), storage.sizes.data(),
        const_cast<void*>(view.data), storage.dim_order.data(), storage.strides.data());
    return EValue(Tensor(storage.tensor.get()));
  }

  std::string name_;
  std::vector<Argument> arguments_;
  OpFunction function_ = nullptr;
  std::deque<executorch::aten::ArrayRef<char>> texts_;
  std::deque<IntList> lists_;
  std::deque<TensorStorage> tensors_;
  std::deque<EValue> values_;
  std::vector<EValue*> stack_;
  Workspace workspace_{max_scratch_bytes()};
};

OperatorCall::OperatorCall(const std::string& name, std::vector<Argument> arguments)
    : impl_(std::make_unique<Impl>(name, std::move(arguments))) {}
OperatorCall::~OperatorCall() = default;

void OperatorCall::run() { impl_->run(); }

}  // namespace daf
