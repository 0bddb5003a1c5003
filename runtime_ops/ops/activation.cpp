#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
void activation(Arguments& args) {
  const Floats x = args.floats("x");
  const Activation kind = read_activation(args);
  const float a = static_cast<float>(args.number("a"));
  const float b = static_cast<float>(args.number("b"));
  const Array<float> y = args.output("out", x.shape);
  daf::activation(kind, a, b, x.n_elements(), x.data, y.data);
}

void activation_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats saved = args.floats("saved");
  const Activation kind = read_activation(args);
  const float a = static_cast<float>(args.number("a"));
  const float b = static_cast<float>(args.number("b"));
  args.require_shape(grad, saved.shape);
  const Array<float> grad_x = args.output("out", saved.shape);
  daf::activation_backward(kind, a, b, saved.n_elements(), grad.data, saved.data, grad_x.data);
}

void activation_derivative(Arguments& args) {
  const Floats saved = args.floats("saved");
  const Activation kind = read_activation(args);
  const float a = static_cast<float>(args.number("a"));
  const float b = static_cast<float>(args.number("b"));
  const Array<float> y = args.output("out", saved.shape);
  daf::activation_derivative(kind, a, b, saved.n_elements(), saved.data, y.data);
}

void activation_with_mask(Arguments& args) {
  const Floats x = args.floats("x");
  const Activation kind = read_activation(args);
  const float a = static_cast<float>(args.number("a"));
  const float b = static_cast<float>(args.number("b"));
  args.require(
      kind == Activation::kRelu || kind == Activation::kHardtanh || kind == Activation::kLeakyRelu,
      "this activation needs more than a mask");
  const Array<float> y = args.output("out0", x.shape);
  const Array<int32_t> mask = args.output<int32_t>("out1", {(x.n_elements() + 31) / 32});
  daf::activation_with_mask(kind, a, b, x.n_elements(), x.data, y.data,
                            reinterpret_cast<uint32_t*>(mask.data));
}

void stored_activation_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  StoredValue saved(args);
  const Activation kind = read_activation(args);
  const float a = static_cast<float>(args.number("a"));
  const float b = static_cast<float>(args.number("b"));
  args.require_shape(grad, saved.shape());
  const Array<float> grad_x = args.output("out", saved.shape());
  // Before grad_x, which may be grad, is written.
  const double square_grad = current_importance() != nullptr ? square_norm(grad) : 0;
  saved.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    const int64_t begin = first * saved.sample_elements();
    daf::activation_backward(kind, a, b, count * saved.sample_elements(), grad.data + begin, part,
                             grad_x.data + begin);
  });
  saved.weigh([&] { return relative(square_grad, square_norm(grad_x)); });
  saved.release();
}

}  // namespace daf::ops
