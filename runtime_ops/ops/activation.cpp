#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"

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

}  // namespace daf::ops
