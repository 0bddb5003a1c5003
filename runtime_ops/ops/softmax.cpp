#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"
#include "runtime_ops/ops/strides.h"

namespace daf::ops {
namespace {

Softmax read_shape(Arguments& args, const Shape& shape) {
  const int64_t axis = args.integer("axis");
  const bool log = args.boolean("log");
  if (shape.rank() == 0 && axis == 0) return Softmax{1, 1, 1, log};  // a single number
  args.require(axis >= 0 && axis < shape.rank(), "axis is ", axis, ", the tensor has shape ",
               shape);
  return Softmax{shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank()), log};
}

// The square of what errors of 1 on average in the probabilities make of grad_x: by the sum of the
// gradients of a row for the logarithm, otherwise by how far each is from their mean.
double error_of_grad_x(const Softmax& shape, const float* grad, const float* y) {
  double square = 0;
  for (int64_t row = 0; row < shape.outer * shape.inner; ++row) {
    const int64_t start = row / shape.inner * shape.n * shape.inner + row % shape.inner;
    const float *g = grad + start, *p = y + start;
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < shape.n * shape.inner; i += shape.inner) {
      sum += shape.log ? g[i] : static_cast<double>(g[i]) * p[i];
      weights += p[i];
    }
    const double mean = relative(sum, weights);
    for (int64_t i = 0; i < shape.n * shape.inner; i += shape.inner) {
      const double factor = shape.log ? sum : g[i] - mean;
      square += factor * factor;
    }
  }
  return square;
}

}  // namespace

void softmax(Arguments& args) {
  const Floats x = args.floats("x");
  const Softmax shape = read_shape(args, x.shape);
  const Array<float> y = args.output("out", x.shape);
  if (y.n_elements() == 0) return;
  daf::softmax(shape, x.data, y.data);
}

void masked_softmax(Arguments& args) {
  const Floats x = args.floats("x");
  const Floats mask = args.floats("mask");
  args.require_rank(x, 1, Shape::kMaxRank);
  args.require(broadcasts_to(mask.shape, x.shape), "mask has shape ", mask.shape,
               ", which cannot be repeated to ", x.shape);
  const Array<float> y = args.output("out", x.shape);
  if (y.n_elements() == 0) return;
  daf::masked_softmax(static_cast<int>(x.rank()), x.shape.data(),
                      broadcast_strides(mask.shape, x.shape).of, x.data, mask.data, y.data);
}

void softmax_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats y = args.floats("y");
  const Softmax shape = read_shape(args, y.shape);
  args.require_shape(grad, y.shape);
  const Array<float> grad_x = args.output("out", y.shape);
  if (grad_x.n_elements() == 0) return;
  daf::softmax_backward(shape, grad.data, y.data, grad_x.data);
}

void stored_softmax_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  StoredValue y(args);
  Softmax whole = read_shape(args, y.shape());
  whole.keeps_probabilities = true;
  args.require_shape(grad, y.shape());
  args.require(whole.outer % y.n_samples() == 0, "the softmax is over the samples");
  const Array<float> grad_x = args.output("out", y.shape());
  double error = 0;  // the square of that of grad_x
  y.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    Softmax shape = whole;
    shape.outer = whole.outer / y.n_samples() * count;
    const int64_t begin = first * y.sample_elements();
    if (current_importance() != nullptr) error += error_of_grad_x(shape, grad.data + begin, part);
    daf::softmax_backward(shape, grad.data + begin, part, grad_x.data + begin);
  });
  y.weigh([&] { return relative(error, square_norm(grad_x)); });
  y.release();
}

}  // namespace daf::ops
