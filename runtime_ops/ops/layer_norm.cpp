// Layer and group normalisation: statistics of each sample on its own.
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
namespace {

// x seen as rows of what is normalised: its last axes.
struct Rows {
  LayerNorm shape;
  Shape leading, normalized;
};

Rows rows_of(const Arguments& args, const Shape& x, int64_t n_axes) {
  args.require(n_axes >= 1 && n_axes <= x.rank(), "n_axes is ", n_axes, ", x has ", x.rank(),
               " axes");
  const int64_t first = x.rank() - n_axes;
  Rows rows{{}, x.slice(0, first), x.slice(first, x.rank())};
  rows.shape = LayerNorm{rows.leading.n_elements(), rows.normalized.n_elements(), 0.0f};
  return rows;
}

GroupNorm group_norm_shape(const Arguments& args, const Floats& x, int64_t groups) {
  args.require_rank(x, 2, Shape::kMaxRank);
  args.require(groups >= 1 && x.size(1) % groups == 0, x.size(1), " channels are not divided by ",
               groups, " groups");
  return GroupNorm{x.size(0), x.size(1), x.shape.product(2, x.rank()), groups, 0.0f};
}

}  // namespace

void layer_norm(Arguments& args) {
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats bias = args.optional_floats("bias");
  Rows rows = rows_of(args, x.shape, args.integer("n_axes"));
  rows.shape.eps = static_cast<float>(args.number("eps"));
  args.require_shape(weight, rows.normalized);
  args.require_shape(bias, rows.normalized);

  const Array<float> y = args.output("out0", x.shape);
  const Array<float> mean = args.output("out1", rows.leading);
  const Array<float> rstd = args.output("out2", rows.leading);
  daf::layer_norm(rows.shape, x.data, weight.data, bias.data, y.data, mean.data, rstd.data);
}

void layer_norm_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats mean = args.floats("mean");
  const Floats rstd = args.floats("rstd");
  const Rows rows = rows_of(args, x.shape, args.integer("n_axes"));
  args.require_shape(grad, x.shape);
  args.require_shape(weight, rows.normalized);
  args.require_shape(mean, rows.leading);
  args.require_shape(rstd, rows.leading);

  const Array<float> grad_x = args.output("out0", x.shape);
  const Array<float> grad_weight = args.output("out1", rows.normalized);
  const Array<float> grad_bias = args.output("out2", rows.normalized);
  daf::layer_norm_backward(rows.shape, grad.data, x.data, weight.data, mean.data, rstd.data,
                           grad_x.data, grad_weight.data, grad_bias.data);
}

namespace {

// The square of what errors of 1 on average in x make of grad_x: by both factors of the term
// x_hat * mean(g x_hat), where g is the gradient of the normalised value.
double error_of_grad_x(const LayerNorm& shape, const float* grad, const float* x,
                       const float* weight, const float* mean, const float* rstd) {
  double sum = 0;
  for (int64_t row = 0; row < shape.rows; ++row) {
    double product = 0, square = 0;
    for (int64_t i = row * shape.n; i < (row + 1) * shape.n; ++i) {
      const double g = weight == nullptr ? grad[i] : grad[i] * weight[i - row * shape.n];
      product += g * (x[i] - mean[row]) * rstd[row];
      square += g * g;
    }
    const double invvar = static_cast<double>(rstd[row]) * rstd[row];
    sum += invvar * invvar * (product * product + square) / static_cast<double>(shape.n);
  }
  return sum;
}

}  // namespace

void stored_layer_norm_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  StoredValue x(args);
  const Floats weight = args.optional_floats("weight");
  const Floats mean = args.floats("mean");
  const Floats rstd = args.floats("rstd");
  const Rows rows = rows_of(args, x.shape(), args.integer("n_axes"));
  args.require(rows.leading.rank() >= 1, "x has shape ", x.shape(), " and no samples");
  args.require_shape(grad, x.shape());
  args.require_shape(weight, rows.normalized);
  args.require_shape(mean, rows.leading);
  args.require_shape(rstd, rows.leading);

  const Array<float> grad_x = args.output("out0", x.shape());
  const Array<float> grad_weight = args.output("out1", rows.normalized);
  const Array<float> grad_bias = args.output("out2", rows.normalized);
  const int64_t n = rows.shape.n, sample_rows = rows.shape.rows / x.n_samples();
  float* part_sums = args.scratch().take<float>(static_cast<size_t>(2 * n));
  double error = 0;  // the square of that of grad_x
  x.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    LayerNorm shape = rows.shape;
    shape.rows = count * sample_rows;
    const int64_t row = first * sample_rows;
    float* sums = first == 0 ? grad_weight.data : part_sums;
    float* bias_sums = first == 0 ? grad_bias.data : part_sums + n;
    daf::layer_norm_backward(shape, grad.data + row * n, part, weight.data, mean.data + row,
                             rstd.data + row, grad_x.data + row * n, sums, bias_sums);
    if (current_importance() != nullptr) {
      error += error_of_grad_x(shape, grad.data + row * n, part, weight.data, mean.data + row,
                               rstd.data + row);
    }
    if (first == 0) return;
    add_to(n, sums, grad_weight.data);
    add_to(n, bias_sums, grad_bias.data);
  });
  x.weigh([&] { return relative(error, square_norm(grad_x)); });
  x.release();
}

void group_norm(Arguments& args) {
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats bias = args.optional_floats("bias");
  GroupNorm shape = group_norm_shape(args, x, args.integer("groups"));
  shape.eps = static_cast<float>(args.number("eps"));
  args.require_shape(weight, {shape.c});
  args.require_shape(bias, {shape.c});

  const Array<float> y = args.output("out0", x.shape);
  const Array<float> mean = args.output("out1", {shape.n, shape.groups});
  const Array<float> rstd = args.output("out2", {shape.n, shape.groups});
  daf::group_norm(shape, x.data, weight.data, bias.data, y.data, mean.data, rstd.data);
}

void group_norm_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats mean = args.floats("mean");
  const Floats rstd = args.floats("rstd");
  const GroupNorm shape = group_norm_shape(args, x, args.integer("groups"));
  args.require_shape(grad, x.shape);
  args.require_shape(weight, {shape.c});
  args.require_shape(mean, {shape.n, shape.groups});
  args.require_shape(rstd, {shape.n, shape.groups});

  const Array<float> grad_x = args.output("out0", x.shape);
  const Array<float> grad_weight = args.output("out1", {shape.c});
  const Array<float> grad_bias = args.output("out2", {shape.c});
  daf::group_norm_backward(shape, grad.data, x.data, weight.data, mean.data, rstd.data, grad_x.data,
                           grad_weight.data, grad_bias.data);
}

}  // namespace daf::ops
