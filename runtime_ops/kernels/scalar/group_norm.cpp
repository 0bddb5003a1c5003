#include <cmath>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/reduce.h"

namespace daf {

void group_norm(const GroupNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd) {
  const int64_t channels = shape.c / shape.groups, spatial = shape.spatial;
  const int64_t n = channels * spatial;
  for (int64_t instance = 0; instance < shape.n * shape.groups; ++instance) {
    const float* in = x + instance * n;
    float* out = y + instance * n;
    const double center = sum(n, in) / static_cast<double>(n);
    const double squares = sum_terms(n, [=](int64_t i) {
      const double d = in[i] - center;
      return d * d;
    });
    const float m = static_cast<float>(center);
    const float r =
        static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + shape.eps));
    mean[instance] = m;
    rstd[instance] = r;
    for (int64_t c = 0; c < channels; ++c, in += spatial, out += spatial) {
      const int64_t channel = instance % shape.groups * channels + c;
      const float scale = weight != nullptr ? weight[channel] * r : r;
      const float shift = bias != nullptr ? bias[channel] : 0.0f;
      for (int64_t i = 0; i < spatial; ++i) out[i] = (in[i] - m) * scale + shift;
    }
  }
}

void group_norm_backward(const GroupNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias) {
  const int64_t channels = shape.c / shape.groups, spatial = shape.spatial;
  const double count = static_cast<double>(channels * spatial);
  const auto plane_sum = [=](int64_t plane) { return sum(spatial, grad_y + plane * spatial); };
  const auto plane_sum_x = [=](int64_t plane, double m) {
    const float* g = grad_y + plane * spatial;
    const float* v = x + plane * spatial;
    return sum_terms(spatial, [=](int64_t i) { return g[i] * (v[i] - m); });
  };

  for (int64_t instance = 0; grad_x != nullptr && instance < shape.n * shape.groups; ++instance) {
    const float m = mean[instance], r = rstd[instance];
    const int64_t first_plane = instance * channels;
    const int64_t first_channel = instance % shape.groups * channels;
    double sum_grad = 0, sum_grad_x = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double w = weight != nullptr ? weight[first_channel + c] : 1.0f;
      sum_grad += w * plane_sum(first_plane + c);
      sum_grad_x += w * plane_sum_x(first_plane + c, m);
    }
    const float grad_mean = static_cast<float>(sum_grad / count);
    const float slope = static_cast<float>(sum_grad_x * r * r / count);
    for (int64_t c = 0; c < channels; ++c) {
      const float w = weight != nullptr ? weight[first_channel + c] : 1.0f;
      const int64_t plane = (first_plane + c) * spatial;
      for (int64_t i = plane; i < plane + spatial; ++i) {
        grad_x[i] = (grad_y[i] * w - grad_mean - (x[i] - m) * slope) * r;
      }
    }
  }

  for (int64_t c = 0; c < shape.c; ++c) {
    double weight_sum = 0, bias_sum = 0;
    for (int64_t image = 0; image < shape.n; ++image) {
      const int64_t plane = image * shape.c + c, instance = plane / channels;
      if (grad_weight != nullptr) {
        weight_sum += plane_sum_x(plane, mean[instance]) * rstd[instance];
      }
      if (grad_bias != nullptr) bias_sum += plane_sum(plane);
    }
    if (grad_weight != nullptr) grad_weight[c] = static_cast<float>(weight_sum);
    if (grad_bias != nullptr) grad_bias[c] = static_cast<float>(bias_sum);
  }
}

}  // namespace daf
