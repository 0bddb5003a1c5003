#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/reduce.h"

namespace daf {
namespace {

void normalize_row(const LayerNorm& shape, const float* x, const float* weight, const float* bias,
                   float* y, float* mean, float* rstd) {
  const int64_t n = shape.n;
  const double center = sum(n, x) / static_cast<double>(n);
  const double squares = sum_terms(n, [=](int64_t i) {
    const double d = x[i] - center;
    return d * d;
  });
  *mean = static_cast<float>(center);
  *rstd = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + shape.eps));
  const float m = *mean, r = *rstd;
  for (int64_t i = 0; i < n; ++i) {
    const float normal = (x[i] - m) * r;
    y[i] = (weight != nullptr ? normal * weight[i] : normal) + (bias != nullptr ? bias[i] : 0.0f);
  }
}

void row_grad(int64_t n, const float* grad_y, const float* x, const float* weight, float m, float r,
              float* grad_x) {
  const auto grad_normal = [=](int64_t i) {
    return weight != nullptr ? grad_y[i] * weight[i] : grad_y[i];
  };
  const double sum_grad = sum_terms(n, [=](int64_t i) -> double { return grad_normal(i); });
  const double sum_grad_x = sum_terms(n, [=](int64_t i) {
    return static_cast<double>(grad_normal(i)) * (static_cast<double>(x[i]) - m);
  });
  const float grad_mean = static_cast<float>(sum_grad / static_cast<double>(n));
  const float slope = static_cast<float>(sum_grad_x * r * r / static_cast<double>(n));
  for (int64_t i = 0; i < n; ++i) {
    grad_x[i] = (grad_normal(i) - grad_mean - (x[i] - m) * slope) * r;
  }
}

}  // namespace

void layer_norm(const LayerNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t start = row * shape.n;
    normalize_row(shape, x + start, weight, bias, y + start, mean + row, rstd + row);
  }
}

void layer_norm_backward(const LayerNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias) {
  const int64_t n = shape.n;
  if (grad_x != nullptr) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      row_grad(n, grad_y + row * n, x + row * n, weight, mean[row], rstd[row], grad_x + row * n);
    }
  }
  // Column sums in strips, so that the sums in double fit on the stack.
  constexpr int64_t kStrip = 64;
  for (int64_t first = 0; first < n; first += kStrip) {
    const int64_t width = std::min(kStrip, n - first);
    double weight_sum[kStrip] = {}, bias_sum[kStrip] = {};
    for (int64_t row = 0; row < shape.rows; ++row) {
      const float* g = grad_y + row * n + first;
      const float* v = x + row * n + first;
      const double m = mean[row], r = rstd[row];
      for (int64_t i = 0; i < width; ++i) {
        weight_sum[i] += g[i] * ((v[i] - m) * r);
        bias_sum[i] += g[i];
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      if (grad_weight != nullptr) grad_weight[first + i] = static_cast<float>(weight_sum[i]);
      if (grad_bias != nullptr) grad_bias[first + i] = static_cast<float>(bias_sum[i]);
    }
  }
}

}  // namespace daf
