// Typed, checked access to the values that ExecuTorch passes to an operator.
//
// The stack holds the arguments in the order of the schema (exporter/ops.py), then the out
// tensors, then the returned value. `Arguments` is read in that order. The program is never
// trusted: whatever is not as the schema says ends the call with a message, so that an adapter
// may hand pointers and sizes on to the kernels.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include "runtime_ops/kernels/kernels.h"

namespace daf::ops {

class Shape {
 public:
  static constexpr int64_t kMaxRank = 16;  // ExecuTorch's limit, and that of daf::sum_axes

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t size : sizes) append(size);
  }

  int64_t rank() const { return rank_; }
  int64_t operator[](int64_t axis) const { return sizes_[axis]; }
  const int64_t* data() const { return sizes_.data(); }
  void append(int64_t size) { sizes_.at(rank_++) = size; }
  // Of the axes [first, last); 1 where there are none.
  int64_t product(int64_t first, int64_t last) const;
  Shape slice(int64_t first, int64_t last) const;
  int64_t n_elements() const { return product(0, rank_); }
  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int64_t rank_ = 0;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// A contiguous tensor. `data` is null for an optional argument that is None, and may be for a
// tensor without elements.
template <class T>
struct Array {
  const char* name;
  T* data = nullptr;
  Shape shape;
  bool is_none = false;

  int64_t rank() const { return shape.rank(); }
  int64_t size(int64_t axis) const { return shape[axis]; }
  int64_t n_elements() const { return shape.n_elements(); }
};
using Floats = Array<const float>;
using Indices = Array<const int64_t>;

// Thrown by `Arguments`, caught by `call`.
struct Failure {
  std::string message;
};

class Arguments {
 public:
  Arguments(const char* operator_name, executorch::runtime::KernelRuntimeContext& context,
            executorch::runtime::Span<executorch::runtime::EValue*> stack)
      : operator_name_(operator_name), scratch_(context), stack_(stack) {}

  // Whether the next value is a tensor of this type; it is not taken.
  template <class T>
  bool next_is() const;

  // Each of these takes the next value; `name` is for messages.
  template <class T>
  Array<const T> tensor(const char* name);
  Floats floats(const char* name) { return tensor<float>(name); }
  Floats optional_floats(const char* name);
  Indices indices(const char* name) { return tensor<int64_t>(name); }
  bool boolean(const char* name);
  int64_t integer(const char* name);
  double number(const char* name);
  std::string_view text(const char* name);
  // Valid until the next call for the same value.
  executorch::aten::ArrayRef<int64_t> integers(const char* name);
  // Of any types; their users check them.
  executorch::aten::ArrayRef<executorch::aten::Tensor> tensors(const char* name);

  // The next value, a tensor that the operator updates in place.
  Array<float> updated(const char* name);
  // What an operator returns that updated `self`: `self` again, not a second tensor.
  void returns(const Array<float>& self);
  // The next out tensor, resized.
  template <class T = float>
  Array<T> output(const char* name, const Shape& shape);

  Scratch& scratch() { return scratch_; }

  // Fails with the parts, written one after the other, unless `holds`.
  template <class... Part>
  void require(bool holds, const Part&... parts) const {
    if (!holds) fail(parts...);
  }
  // An absent optional tensor has every shape.
  template <class T>
  void require_shape(const Array<T>& array, const Shape& expected) const {
    require(array.is_none || array.shape == expected, array.name, " has shape ", array.shape,
            ", expected ", expected);
  }
  template <class T>
  void require_rank(const Array<T>& array, int64_t least, int64_t most) const {
    require(array.rank() >= least && array.rank() <= most, array.name, " has shape ", array.shape,
            ", expected ", least, " to ", most, " axes");
  }
  template <class... Part>
  [[noreturn]] void fail(const Part&... parts) const {
    std::ostringstream message;
    message << operator_name_ << ": ";
    (message << ... << parts);
    throw Failure{message.str()};
  }

 private:
  // The memory that ExecuTorch takes back when the operator returns.
  class ContextScratch final : public Scratch {
   public:
    explicit ContextScratch(executorch::runtime::KernelRuntimeContext& context)
        : context_(context) {}
    void* allocate(size_t size_bytes) override;

   private:
    executorch::runtime::KernelRuntimeContext& context_;
  };

  executorch::runtime::EValue& next(const char* name);
  executorch::aten::Tensor& next_tensor(const char* name, executorch::aten::ScalarType type);
  template <class T>
  Array<T> array(const char* name, const executorch::aten::Tensor& tensor) const;

  const char* operator_name_;
  ContextScratch scratch_;
  executorch::runtime::Span<executorch::runtime::EValue*> stack_;
  size_t n_taken_ = 0;
};

using Operator = void (*)(Arguments&);

// Runs an adapter for ExecuTorch: no exception leaves it, a failure is reported and set.
void call(const char* operator_name, Operator adapter,
          executorch::runtime::KernelRuntimeContext& context,
          executorch::runtime::Span<executorch::runtime::EValue*> stack) noexcept;

}  // namespace daf::ops
