#include <algorithm>
#include <string_view>

#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/strides.h"

namespace daf::ops {
namespace {

struct Kind {
  std::string_view name;
  Arithmetic arithmetic;
};
constexpr Kind kKinds[] = {
    {"add", Arithmetic::kAdd},
    {"subtract", Arithmetic::kSubtract},
    {"multiply", Arithmetic::kMultiply},
    {"divide", Arithmetic::kDivide},
};

Arithmetic read_kind(Arguments& args) {
  const std::string_view name = args.text("kind");
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.arithmetic;
  }
  args.fail("this runtime has no arithmetic ", name);
}

Shape broadcast_shape(Arguments& args, const Floats& a, const Floats& b) {
  Shape shape;
  const int64_t rank = std::max(a.rank(), b.rank());
  for (int64_t axis = 0; axis < rank; ++axis) {
    const auto size = [&](const Floats& array) {
      const int64_t own = axis - (rank - array.rank());
      return own < 0 ? 1 : array.size(own);
    };
    args.require(size(a) == size(b) || size(a) == 1 || size(b) == 1, "a has shape ", a.shape,
                 " and b ", b.shape, ", which do not fit each other");
    shape.append(size(a) == 1 ? size(b) : size(a));
  }
  return shape;
}

}  // namespace

void arithmetic(Arguments& args) {
  const Floats a = args.floats("a");
  const Floats b = args.floats("b");
  const Arithmetic kind = read_kind(args);
  const Shape shape = broadcast_shape(args, a, b);
  const Array<float> y = args.output("out", shape);
  if (y.n_elements() == 0) return;
  daf::arithmetic(kind, static_cast<int>(shape.rank()), shape.data(),
                  broadcast_strides(a.shape, shape).of, broadcast_strides(b.shape, shape).of,
                  a.data, b.data, y.data);
}

void arithmetic_scalar(Arguments& args) {
  const Floats a = args.floats("a");
  const auto b = static_cast<float>(args.number("b"));
  const Arithmetic kind = read_kind(args);
  const Array<float> y = args.output("out", a.shape);
  const int64_t n = a.n_elements(), each = 1, same = 0;
  if (n > 0) daf::arithmetic(kind, 1, &n, &each, &same, a.data, &b, y.data);
}

void add_activation(Arguments& args) {
  const Floats x = args.floats("x");
  const Floats other = args.floats("other");
  const Bounds bounds = read_bounds(args);
  args.require_shape(other, x.shape);
  const Array<float> y = args.output("out", x.shape);
  daf::add_clamped(x.n_elements(), bounds.low, bounds.high, x.data, other.data, y.data);
}

}  // namespace daf::ops
