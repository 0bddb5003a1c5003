#include "runtime_ops/ops/arguments.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <new>

#include "runtime_ops/ops/failure.h"

namespace daf::ops {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

namespace {

template <class T>
constexpr ScalarType scalar_type_of = executorch::runtime::CppTypeToScalarType<T>::value;

// Axes of one element have no place in the order.
bool is_contiguous(const Tensor& tensor) {
  int last_axis = -1;
  for (int axis : tensor.dim_order()) {
    if (tensor.size(axis) == 1) continue;
    if (axis < last_axis) return false;
    last_axis = axis;
  }
  return true;
}

void set_failure(KernelRuntimeContext& context, Error error, const std::string& message) {
  ET_LOG(Error, "%s", message.c_str());  // for hosts without a session
  report_failure(message);
  context.fail(error);
}

}  // namespace

int64_t Shape::product(int64_t first, int64_t last) const {
  int64_t product = 1;
  for (int64_t axis = first; axis < last; ++axis) product *= sizes_[axis];
  return product;
}

Shape Shape::slice(int64_t first, int64_t last) const {
  Shape slice;
  for (int64_t axis = first; axis < last; ++axis) slice.append(sizes_[axis]);
  return slice;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ &&
         std::equal(sizes_.begin(), sizes_.begin() + rank_, other.sizes_.begin());
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int64_t axis = 0; axis < shape.rank(); ++axis) out << (axis ? ", " : "") << shape[axis];
  return out << ']';
}

void* Arguments::ContextScratch::allocate(size_t size_bytes) {
  constexpr size_t kAlignment = 64;
  auto memory = context_.allocate_temp(std::max<size_t>(size_bytes, 1), kAlignment);
  if (!memory.ok()) throw std::bad_alloc();
  return memory.get();
}

EValue& Arguments::next(const char* name) {
  require(n_taken_ < stack_.size(), "the program passes only ", stack_.size(),
          " values, there is none for ", name, "; export it again");
  return *stack_[n_taken_++];
}

Tensor& Arguments::next_tensor(const char* name, ScalarType type) {
  EValue& value = next(name);
  require(value.isTensor(), name, " is not a tensor");
  Tensor& tensor = value.toTensor();
  require(tensor.scalar_type() == type, name, " is ",
          executorch::runtime::toString(tensor.scalar_type()), ", expected ",
          executorch::runtime::toString(type));
  require(tensor.dim() <= Shape::kMaxRank, name, " has ", tensor.dim(), " axes, at most ",
          Shape::kMaxRank, " are supported");
  require(is_contiguous(tensor), name, " is not contiguous");
  return tensor;
}

template <class T>
Array<T> Arguments::array(const char* name, const Tensor& tensor) const {
  Array<T> array{name, static_cast<T*>(tensor.mutable_data_ptr()), Shape(), false};
  for (int64_t size : tensor.sizes()) array.shape.append(size);
  require(array.data != nullptr || array.n_elements() == 0, name, " has no memory");
  return array;
}

template <class T>
bool Arguments::next_is() const {
  return n_taken_ < stack_.size() && stack_[n_taken_]->isTensor() &&
         stack_[n_taken_]->toTensor().scalar_type() == scalar_type_of<T>;
}
template bool Arguments::next_is<uint8_t>() const;

template <class T>
Array<const T> Arguments::tensor(const char* name) {
  return array<const T>(name, next_tensor(name, scalar_type_of<T>));
}
template Array<const float> Arguments::tensor<float>(const char*);
template Array<const int64_t> Arguments::tensor<int64_t>(const char*);
template Array<const int32_t> Arguments::tensor<int32_t>(const char*);
template Array<const uint8_t> Arguments::tensor<uint8_t>(const char*);

Floats Arguments::optional_floats(const char* name) {
  if (n_taken_ < stack_.size() && stack_[n_taken_]->isNone()) {
    ++n_taken_;
    return Floats{name, nullptr, Shape(), true};
  }
  return floats(name);
}

Array<float> Arguments::updated(const char* name) {
  return array<float>(name, next_tensor(name, ScalarType::Float));
}

void Arguments::returns(const Array<float>& self) {
  const Array<float> result = updated("result");
  require(result.data == self.data && result.shape == self.shape,
          "the program does not return the tensor that is updated");
}

template <class T>
Array<T> Arguments::output(const char* name, const Shape& shape) {
  Tensor& tensor = next_tensor(name, scalar_type_of<T>);
  std::array<SizesType, Shape::kMaxRank> sizes{};
  for (int64_t axis = 0; axis < shape.rank(); ++axis) {
    require(shape[axis] >= 0 && shape[axis] <= std::numeric_limits<SizesType>::max(), name,
            " would have shape ", shape);
    sizes[axis] = static_cast<SizesType>(shape[axis]);
  }
  const Error error = executorch::runtime::resize_tensor(
      tensor, executorch::aten::ArrayRef<SizesType>(sizes.data(), shape.rank()));
  require(error == Error::Ok, name, " cannot have the shape ", shape,
          " that follows from the inputs; does the batch fit the exported one?");
  return array<T>(name, tensor);
}
template Array<float> Arguments::output<float>(const char*, const Shape&);
template Array<int32_t> Arguments::output<int32_t>(const char*, const Shape&);
template Array<uint8_t> Arguments::output<uint8_t>(const char*, const Shape&);

bool Arguments::boolean(const char* name) {
  const auto value = next(name).tryToBool();
  require(value.ok(), name, " is not a bool");
  return value.get();
}

int64_t Arguments::integer(const char* name) {
  const auto value = next(name).tryToInt();
  require(value.ok(), name, " is not an int");
  return value.get();
}

double Arguments::number(const char* name) {
  const EValue& value = next(name);
  if (value.isInt()) return static_cast<double>(value.toInt());  // `1` written for `1.0`
  require(value.isDouble(), name, " is not a number");
  return value.toDouble();
}

std::string_view Arguments::text(const char* name) {
  const auto value = next(name).tryToString();
  require(value.ok(), name, " is not a string");
  return value.get();
}

executorch::aten::ArrayRef<int64_t> Arguments::integers(const char* name) {
  const auto value = next(name).tryToIntList();
  require(value.ok(), name, " is not a list of ints");
  return value.get();
}

executorch::aten::ArrayRef<Tensor> Arguments::tensors(const char* name) {
  const auto value = next(name).tryToTensorList();
  require(value.ok(), name, " is not a list of tensors");
  for (const Tensor& tensor : value.get()) {
    require(is_contiguous(tensor), name, " has a tensor that is not contiguous");
  }
  return value.get();
}

void call(const char* operator_name, Operator adapter, KernelRuntimeContext& context,
          Span<EValue*> stack) noexcept {
  Arguments arguments(operator_name, context, stack);
  try {
    adapter(arguments);
  } catch (const Failure& failure) {
    set_failure(context, Error::InvalidArgument, failure.message);
  } catch (const std::bad_alloc&) {
    set_failure(context, Error::MemoryAllocationFailed,
                std::string(operator_name) + ": not enough memory for its workspace");
  } catch (const std::exception& error) {
    set_failure(context, Error::Internal, std::string(operator_name) + ": " + error.what());
  }
}

}  // namespace daf::ops
