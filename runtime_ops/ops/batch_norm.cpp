#include <algorithm>
#include <cmath>

#include "runtime_ops/ops/activation_kind.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
namespace {

// Of x[n, c, ...]; everything but y has c entries.
BatchNorm batch_norm_shape(const Arguments& args, const Floats& x, float eps) {
  args.require_rank(x, 2, Shape::kMaxRank);
  return BatchNorm{x.size(0), x.size(1), x.shape.product(2, x.rank()), eps};
}

void read_activation(Arguments& args, BatchNorm& shape) {
  const Bounds bounds = read_bounds(args);
  shape.low = bounds.low;
  shape.high = bounds.high;
}

void train(Arguments& args, bool has_activation) {
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats bias = args.optional_floats("bias");
  const Floats running_mean = args.optional_floats("running_mean");
  const Floats running_var = args.optional_floats("running_var");
  const float momentum = static_cast<float>(args.number("momentum"));
  BatchNorm shape = batch_norm_shape(args, x, static_cast<float>(args.number("eps")));
  if (has_activation) read_activation(args, shape);
  for (const Floats* array : {&weight, &bias, &running_mean, &running_var}) {
    args.require_shape(*array, {shape.c});
  }
  args.require(running_mean.is_none == running_var.is_none,
               "only one of running_mean and running_var is given");
  args.require(shape.n * shape.spatial != 1,
               "x has one value per channel, training needs more; use a larger batch");

  const Array<float> y = args.output("out0", x.shape);
  const Array<float> mean = args.output("out1", {shape.c});
  const Array<float> var = args.output("out2", {shape.c});
  const Array<float> new_running_mean = args.output("out3", {shape.c});
  const Array<float> new_running_var = args.output("out4", {shape.c});
  if (y.n_elements() == 0) {  // no statistics: as PyTorch, the running ones stay
    std::fill_n(mean.data, shape.c, 0.0f);
    std::fill_n(var.data, shape.c, 0.0f);
    if (!running_mean.is_none) {
      std::copy_n(running_mean.data, shape.c, new_running_mean.data);
      std::copy_n(running_var.data, shape.c, new_running_var.data);
    } else {
      std::fill_n(new_running_mean.data, shape.c, 0.0f);
      std::fill_n(new_running_var.data, shape.c, 0.0f);
    }
    return;
  }
  daf::batch_norm_train(shape, x.data, weight.data, bias.data, running_mean.data, running_var.data,
                        momentum, y.data, mean.data, var.data, new_running_mean.data,
                        new_running_var.data);
}

void eval(Arguments& args, bool has_activation) {
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats bias = args.optional_floats("bias");
  const Floats mean = args.floats("mean");
  const Floats var = args.floats("var");
  BatchNorm shape = batch_norm_shape(args, x, static_cast<float>(args.number("eps")));
  if (has_activation) read_activation(args, shape);
  for (const Floats* array : {&weight, &bias, &mean, &var}) {
    args.require_shape(*array, {shape.c});
  }

  const Array<float> y = args.output("out", x.shape);
  daf::batch_norm_eval(shape, x.data, weight.data, bias.data, mean.data, var.data, y.data);
}

void backward(Arguments& args, bool has_activation) {
  const Floats grad = args.floats("grad");
  const Floats y = has_activation ? args.floats("y") : Floats{"y", nullptr, Shape(), true};
  const Floats x = args.floats("x");
  const Floats weight = args.optional_floats("weight");
  const Floats mean = args.floats("mean");
  const Floats var = args.floats("var");
  const bool batch_statistics = args.boolean("batch_statistics");
  BatchNorm shape = batch_norm_shape(args, x, static_cast<float>(args.number("eps")));
  if (has_activation) read_activation(args, shape);
  args.require_shape(grad, x.shape);
  args.require_shape(y, x.shape);
  for (const Floats* array : {&weight, &mean, &var}) args.require_shape(*array, {shape.c});

  const Array<float> grad_x = args.output("out0", x.shape);
  const Array<float> grad_weight = args.output("out1", {shape.c});
  const Array<float> grad_bias = args.output("out2", {shape.c});
  if (x.n_elements() == 0) {
    std::fill_n(grad_weight.data, shape.c, 0.0f);
    std::fill_n(grad_bias.data, shape.c, 0.0f);
    return;
  }
  daf::batch_norm_backward(shape, batch_statistics, grad.data, y.data, x.data, weight.data,
                           mean.data, var.data, grad_x.data, grad_weight.data, grad_bias.data);
}

}  // namespace

void batch_norm_train(Arguments& args) { train(args, false); }
void batch_norm_activation_train(Arguments& args) { train(args, true); }
void batch_norm_eval(Arguments& args) { eval(args, false); }
void batch_norm_activation_eval(Arguments& args) { eval(args, true); }
void batch_norm_backward(Arguments& args) { backward(args, false); }
void batch_norm_activation_backward(Arguments& args) { backward(args, true); }

void stored_batch_norm_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  StoredValue x(args);
  const Floats weight = args.optional_floats("weight");
  const Floats mean = args.floats("mean");
  const Floats var = args.floats("var");
  const bool batch_statistics = args.boolean("batch_statistics");
  args.require_shape(grad, x.shape());
  const BatchNorm whole = batch_norm_shape(args, grad, static_cast<float>(args.number("eps")));
  for (const Floats* array : {&weight, &mean, &var}) args.require_shape(*array, {whole.c});

  const Array<float> grad_x = args.output("out0", x.shape());
  const Array<float> grad_weight = args.output("out1", {whole.c});
  const Array<float> grad_bias = args.output("out2", {whole.c});
  double* sums = args.scratch().take<double>(static_cast<size_t>(2 * whole.c));
  std::fill_n(sums, 2 * whole.c, 0.0);
  BatchNorm shape = whole;
  x.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    shape.n = count;
    batch_norm_backward_sums(shape, grad.data + first * x.sample_elements(), part, mean.data, sums);
  });
  for (int64_t c = 0; c < whole.c; ++c) {
    const double invstd = 1.0 / std::sqrt(static_cast<double>(var.data[c]) + whole.eps);
    grad_weight.data[c] = static_cast<float>(sums[whole.c + c] * invstd);
    grad_bias.data[c] = static_cast<float>(sums[c]);
  }
  // The square of grad_weight's error, before grad_x, which may be grad, is written.
  double of_weight = 0;
  for (int64_t i = 0; current_importance() != nullptr && i < whole.n * whole.c; ++i) {
    const double invvar = 1.0 / (static_cast<double>(var.data[i % whole.c]) + whole.eps);
    of_weight += invvar * square_norm(grad.data + i * whole.spatial, whole.spatial);
  }
  x.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    shape.n = count;
    batch_norm_backward_part(shape, batch_statistics, whole.n * whole.spatial,
                             grad.data + first * x.sample_elements(), part, weight.data, mean.data,
                             var.data, sums, grad_x.data + first * x.sample_elements());
  });
  x.weigh([&] {
    double of_x = 0;  // the square of the error of grad_x
    const auto count = static_cast<double>(whole.n * whole.spatial);
    for (int64_t c = 0; c < whole.c; ++c) {
      const double invvar = 1.0 / (static_cast<double>(var.data[c]) + whole.eps);
      const double scale = weight.is_none ? 1.0 : static_cast<double>(weight.data[c]);
      const double slope = scale * invvar * grad_weight.data[c] / count;
      of_x += slope * slope * invvar * count;
    }
    return relative(of_x, square_norm(grad_x)) + relative(of_weight, square_norm(grad_weight));
  });
  x.release();
}

}  // namespace daf::ops
