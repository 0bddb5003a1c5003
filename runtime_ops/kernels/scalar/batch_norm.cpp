#include <cmath>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/reduce.h"

namespace daf {
namespace {

// Sum over one channel of all images: term(offset of an element in the tensor).
template <class Term>
double channel_sum(const BatchNorm& shape, int64_t channel, Term term) {
  double total = 0;
  for (int64_t image = 0; image < shape.n; ++image) {
    const int64_t plane = (image * shape.c + channel) * shape.spatial;
    total += sum_terms(shape.spatial, [&](int64_t i) { return term(plane + i); });
  }
  return total;
}

template <class Body>
void for_each_element(const BatchNorm& shape, int64_t channel, Body body) {
  for (int64_t image = 0; image < shape.n; ++image) {
    const int64_t plane = (image * shape.c + channel) * shape.spatial;
    for (int64_t i = plane; i < plane + shape.spatial; ++i) body(i);
  }
}

void normalize(const BatchNorm& shape, int64_t channel, const float* x, const float* weight,
               const float* bias, double mean, double var, float* y) {
  const double invstd = 1.0 / std::sqrt(var + shape.eps);
  const float center = static_cast<float>(mean);
  const float scale = static_cast<float>(weight != nullptr ? weight[channel] * invstd : invstd);
  const float shift = bias != nullptr ? bias[channel] : 0.0f;
  for_each_element(shape, channel, [=](int64_t i) { y[i] = (x[i] - center) * scale + shift; });
}

}  // namespace

void batch_norm_train(const BatchNorm& shape, const float* x, const float* weight,
                      const float* bias, const float* running_mean, const float* running_var,
                      float momentum, float* y, float* mean, float* var, float* new_running_mean,
                      float* new_running_var) {
  const double count = static_cast<double>(shape.n * shape.spatial);
  const double kept = 1.0 - static_cast<double>(momentum);
  for (int64_t c = 0; c < shape.c; ++c) {
    const double center =
        channel_sum(shape, c, [=](int64_t i) { return static_cast<double>(x[i]); }) / count;
    const double squares = channel_sum(shape, c, [=](int64_t i) {
      const double d = x[i] - center;
      return d * d;
    });
    const double unbiased = squares / (count - 1);  // NaN for a single value, as in PyTorch
    normalize(shape, c, x, weight, bias, center, squares / count, y);
    mean[c] = static_cast<float>(center);
    var[c] = static_cast<float>(squares / count);
    new_running_mean[c] = static_cast<float>(
        running_mean != nullptr ? kept * running_mean[c] + momentum * center : center);
    new_running_var[c] = static_cast<float>(
        running_var != nullptr ? kept * running_var[c] + momentum * unbiased : unbiased);
  }
}

void batch_norm_eval(const BatchNorm& shape, const float* x, const float* weight, const float* bias,
                     const float* mean, const float* var, float* y) {
  for (int64_t c = 0; c < shape.c; ++c) {
    normalize(shape, c, x, weight, bias, mean[c], var[c], y);
  }
}

void batch_norm_backward(const BatchNorm& shape, bool batch_statistics, const float* grad_y,
                         const float* x, const float* weight, const float* mean, const float* var,
                         float* grad_x, float* grad_weight, float* grad_bias) {
  const double count = static_cast<double>(shape.n * shape.spatial);
  for (int64_t c = 0; c < shape.c; ++c) {
    const float center = mean[c];
    const double invstd = 1.0 / std::sqrt(static_cast<double>(var[c]) + shape.eps);
    const double sum_grad =
        channel_sum(shape, c, [=](int64_t i) { return static_cast<double>(grad_y[i]); });
    const double sum_grad_x = channel_sum(shape, c, [=](int64_t i) {
      return static_cast<double>(grad_y[i]) * (static_cast<double>(x[i]) - center);
    });
    if (grad_weight != nullptr) grad_weight[c] = static_cast<float>(sum_grad_x * invstd);
    if (grad_bias != nullptr) grad_bias[c] = static_cast<float>(sum_grad);
    if (grad_x == nullptr) continue;

    const float scale = static_cast<float>(weight != nullptr ? weight[c] * invstd : invstd);
    if (batch_statistics) {
      const float grad_mean = static_cast<float>(sum_grad / count);
      const float slope = static_cast<float>(sum_grad_x * invstd * invstd / count);
      for_each_element(shape, c, [=](int64_t i) {
        grad_x[i] = (grad_y[i] - grad_mean - (x[i] - center) * slope) * scale;
      });
    } else {
      for_each_element(shape, c, [=](int64_t i) { grad_x[i] = grad_y[i] * scale; });
    }
  }
}

}  // namespace daf
