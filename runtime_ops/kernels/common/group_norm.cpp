#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/reduce.h"

namespace daf::DAF_ISA {
namespace {

template <class Body>
void for_each_index(int64_t n, int64_t cost, Body body) {
  for_each_range(n, cost, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) body(i);
  });
}

// Adds the sums of grad_y and of grad_y * (x - m) over one plane.
void add_plane_sums(int64_t spatial, const float* g, const float* v, float m, double (&sums)[2]) {
  add_sums<2>(
      spatial,
      [=](auto at, auto& terms) {
        terms[0] = at(g);
        terms[1] = terms[0] * (at(v) - m);
      },
      sums);
}

}  // namespace

void group_norm(const GroupNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd) {
  const int64_t channels = shape.c / shape.groups, spatial = shape.spatial;
  const int64_t n = channels * spatial;
  for_each_index(shape.n * shape.groups, n, [=](int64_t instance) {
    const float* in = x + instance * n;
    float* out = y + instance * n;
    const double center = sum(n, in) / static_cast<double>(n);
    const float m = static_cast<float>(center);
    const double rounding = center - m;
    const double squares = sum_terms(n, [=](auto at) {
      const auto d = at(in) - m;
      return d * d;
    });
    const double var = squares / static_cast<double>(n) - rounding * rounding;
    const float r = static_cast<float>(1.0 / std::sqrt((var < 0 ? 0.0 : var) + shape.eps));
    mean[instance] = m;
    rstd[instance] = r;
    for (int64_t c = 0; c < channels; ++c, in += spatial, out += spatial) {
      const int64_t channel = instance % shape.groups * channels + c;
      const float scale = weight != nullptr ? weight[channel] * r : r;
      const float shift = bias != nullptr ? bias[channel] : 0.0f;
      map(spatial, in, out, [=](Vec v) { return (v - m) * scale + shift; });
    }
  });
}

void group_norm_backward(const GroupNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias) {
  const int64_t channels = shape.c / shape.groups, spatial = shape.spatial;
  const double count = static_cast<double>(channels * spatial);
  const int64_t n_instances = grad_x != nullptr ? shape.n * shape.groups : 0;
  for_each_index(n_instances, channels * spatial, [=](int64_t instance) {
    const float m = mean[instance], r = rstd[instance];
    const int64_t first_channel = instance % shape.groups * channels;
    double sums[2] = {};
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t plane = (instance * channels + c) * spatial;
      double of_plane[2] = {};
      add_plane_sums(spatial, grad_y + plane, x + plane, m, of_plane);
      const double w = weight != nullptr ? weight[first_channel + c] : 1.0f;
      for (int s = 0; s < 2; ++s) sums[s] += w * of_plane[s];
    }
    const float grad_mean = static_cast<float>(sums[0] / count);
    const float slope = static_cast<float>(sums[1] * r * r / count);
    for (int64_t c = 0; c < channels; ++c) {
      const float w = weight != nullptr ? weight[first_channel + c] : 1.0f;
      const int64_t plane = (instance * channels + c) * spatial;
      map(spatial, grad_y + plane, x + plane, grad_x + plane,
          [=](Vec g, Vec v) { return (g * w - grad_mean - (v - m) * slope) * r; });
    }
  });

  if (grad_weight == nullptr && grad_bias == nullptr) return;
  for_each_index(shape.c, shape.n * spatial, [=](int64_t c) {
    double weight_sum = 0, bias_sum = 0;
    for (int64_t image = 0; image < shape.n; ++image) {
      const int64_t plane = image * shape.c + c, instance = plane / channels;
      double sums[2] = {};
      add_plane_sums(spatial, grad_y + plane * spatial, x + plane * spatial, mean[instance], sums);
      bias_sum += sums[0];
      weight_sum += sums[1] * rstd[instance];
    }
    if (grad_weight != nullptr) grad_weight[c] = static_cast<float>(weight_sum);
    if (grad_bias != nullptr) grad_bias[c] = static_cast<float>(bias_sum);
  });
}

}  // namespace daf::DAF_ISA
