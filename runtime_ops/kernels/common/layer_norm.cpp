#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/reduce.h"

namespace daf::DAF_ISA {
namespace {

void normalize_row(const LayerNorm& shape, const float* x, const float* weight, const float* bias,
                   float* y, float* mean, float* rstd) {
  const int64_t n = shape.n;
  const double center = sum(n, x) / static_cast<double>(n);
  const float m = static_cast<float>(center);
  const double rounding = center - m;
  const double squares = sum_terms(n, [=](auto at) {
    const auto d = at(x) - m;
    return d * d;
  });
  const double var = squares / static_cast<double>(n) - rounding * rounding;
  const float r = static_cast<float>(1.0 / std::sqrt((var < 0 ? 0.0 : var) + shape.eps));
  *mean = m;
  *rstd = r;
  if (weight != nullptr && bias != nullptr) {
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) {
      store(y + i, (load(x + i) - m) * r * load(weight + i) + load(bias + i));
    }
    for (; i < n; ++i) y[i] = (x[i] - m) * r * weight[i] + bias[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const float normal = (x[i] - m) * r;
    y[i] = (weight != nullptr ? normal * weight[i] : normal) + (bias != nullptr ? bias[i] : 0.0f);
  }
}

// `weighted(at)` is grad_y * weight at an element.
template <class Weighted>
void row_grad(int64_t n, Weighted weighted, const float* x, float m, float r, float* grad_x) {
  double sums[2] = {};
  add_sums<2>(
      n,
      [=](auto at, auto& terms) {
        terms[0] = weighted(at);
        terms[1] = terms[0] * (at(x) - m);
      },
      sums);
  const float grad_mean = static_cast<float>(sums[0] / static_cast<double>(n));
  const float slope = static_cast<float>(sums[1] * r * r / static_cast<double>(n));
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(grad_x + i, (weighted(VecAt{i}) - grad_mean - (load(x + i) - m) * slope) * r);
  }
  for (; i < n; ++i) {
    grad_x[i] = (weighted(FloatAt{i}) - grad_mean - (x[i] - m) * slope) * r;
  }
}

// Sums over rows, of a strip of columns: in float over a few rows, then in double.
constexpr int64_t kStrip = 64, kRowsInFloat = 16;

void column_sums(const LayerNorm& shape, int64_t first, int64_t width, const float* grad_y,
                 const float* x, const float* mean, const float* rstd, double* weight_sum,
                 double* bias_sum) {
  const int64_t n = shape.n;
  for (int64_t row0 = 0; row0 < shape.rows; row0 += kRowsInFloat) {
    const int64_t last = std::min(shape.rows, row0 + kRowsInFloat);
    for (int64_t i = 0; i < width; i += kWidth) {
      const int64_t count = std::min<int64_t>(kWidth, width - i);
      Vec weight_part = {}, bias_part = {};
      for (int64_t row = row0; row < last; ++row) {
        const int64_t place = row * n + first + i;
        const bool is_whole = count == kWidth;
        const Vec g = is_whole ? load(grad_y + place) : load_part(grad_y + place, count);
        const Vec v = is_whole ? load(x + place) : load_part(x + place, count);
        weight_part += g * ((v - mean[row]) * rstd[row]);
        bias_part += g;
      }
      for (int l = 0; l < count; ++l) {
        weight_sum[i + l] += weight_part[l];
        bias_sum[i + l] += bias_part[l];
      }
    }
  }
}

}  // namespace

void layer_norm(const LayerNorm& shape, const float* x, const float* weight, const float* bias,
                float* y, float* mean, float* rstd) {
  for_each_range(shape.rows, shape.n, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t start = row * shape.n;
      normalize_row(shape, x + start, weight, bias, y + start, mean + row, rstd + row);
    }
  });
}

void layer_norm_backward(const LayerNorm& shape, const float* grad_y, const float* x,
                         const float* weight, const float* mean, const float* rstd, float* grad_x,
                         float* grad_weight, float* grad_bias) {
  const int64_t n = shape.n;
  if (grad_x != nullptr) {
    for_each_range(shape.rows, n, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const float *g = grad_y + row * n, *v = x + row * n;
        if (weight != nullptr) {
          row_grad(
              n, [=](auto at) { return at(g) * at(weight); }, v, mean[row], rstd[row],
              grad_x + row * n);
        } else {
          row_grad(n, [=](auto at) { return at(g); }, v, mean[row], rstd[row], grad_x + row * n);
        }
      }
    });
  }
  if (grad_weight == nullptr && grad_bias == nullptr) return;
  for_each_range((n + kStrip - 1) / kStrip, shape.rows * kStrip, [&](int64_t from, int64_t to) {
    for (int64_t strip = from; strip < to; ++strip) {
      const int64_t first = strip * kStrip, width = std::min(kStrip, n - first);
      double weight_sum[kStrip] = {}, bias_sum[kStrip] = {};
      column_sums(shape, first, width, grad_y, x, mean, rstd, weight_sum, bias_sum);
      for (int64_t i = 0; i < width; ++i) {
        if (grad_weight != nullptr) grad_weight[first + i] = static_cast<float>(weight_sum[i]);
        if (grad_bias != nullptr) grad_bias[first + i] = static_cast<float>(bias_sum[i]);
      }
    }
  });
}

}  // namespace daf::DAF_ISA
