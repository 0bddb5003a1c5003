#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/math.h"
#include "runtime_ops/kernels/scalar/reduce.h"

namespace daf {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

float larger(float a, float b) { return a > b ? a : b; }

float max_of_row(int64_t n, const float* x) {
  float lane[8];
  std::fill_n(lane, 8, kLowest);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int l = 0; l < 8; ++l) lane[l] = larger(x[i + l], lane[l]);
  }
  for (; i < n; ++i) lane[0] = larger(x[i], lane[0]);
  return *std::max_element(lane, lane + 8);
}

void softmax_row(int64_t n, bool log, const float* x, float* y) {
  const float largest = max_of_row(n, x);
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - largest);
  const double total = sum(n, y);
  if (log) {
    const float log_total = static_cast<float>(std::log(total));
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] - largest - log_total;
  } else {
    const float divisor = static_cast<float>(total);
    for (int64_t i = 0; i < n; ++i) y[i] /= divisor;
  }
}

void row_grad(int64_t n, bool log, const float* grad_y, const float* y, float* grad_x) {
  if (log) {
    const float total = static_cast<float>(sum(n, grad_y));
    for (int64_t i = 0; i < n; ++i) grad_x[i] = grad_y[i] - math::exp(y[i]) * total;
  } else {
    const float total = static_cast<float>(
        sum_terms(n, [=](int64_t i) { return static_cast<double>(grad_y[i]) * y[i]; }));
    for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] * (grad_y[i] - total);
  }
}

// Where the axis is not the last one, up to kStrip neighbours along `inner` are worked on
// together, so that memory is read in runs. Pointers are to the first element of the strip.
constexpr int64_t kStrip = 64;

void softmax_strip(const Softmax& shape, int64_t width, const float* x, float* y) {
  const int64_t n = shape.n, step = shape.inner;
  float largest[kStrip];
  double total[kStrip];
  std::fill_n(largest, width, kLowest);
  std::fill_n(total, width, 0.0);
  for (int64_t k = 0; k < n; ++k) {
    const float* in = x + k * step;
    for (int64_t i = 0; i < width; ++i) largest[i] = larger(in[i], largest[i]);
  }
  for (int64_t k = 0; k < n; ++k) {
    const float* in = x + k * step;
    float* out = y + k * step;
    for (int64_t i = 0; i < width; ++i) out[i] = math::exp(in[i] - largest[i]);
    for (int64_t i = 0; i < width; ++i) total[i] += out[i];
  }
  float last[kStrip];  // what is divided by, or subtracted
  for (int64_t i = 0; i < width; ++i) {
    last[i] = static_cast<float>(shape.log ? std::log(total[i]) : total[i]);
  }
  for (int64_t k = 0; k < n; ++k) {
    const float* in = x + k * step;
    float* out = y + k * step;
    if (shape.log) {
      for (int64_t i = 0; i < width; ++i) out[i] = in[i] - largest[i] - last[i];
    } else {
      for (int64_t i = 0; i < width; ++i) out[i] /= last[i];
    }
  }
}

void strip_grad(const Softmax& shape, int64_t width, const float* grad_y, const float* y,
                float* grad_x) {
  const int64_t n = shape.n, step = shape.inner;
  double total[kStrip];
  std::fill_n(total, width, 0.0);
  for (int64_t k = 0; k < n; ++k) {
    const float *g = grad_y + k * step, *v = y + k * step;
    if (shape.log) {
      for (int64_t i = 0; i < width; ++i) total[i] += g[i];
    } else {
      for (int64_t i = 0; i < width; ++i) total[i] += static_cast<double>(g[i]) * v[i];
    }
  }
  for (int64_t k = 0; k < n; ++k) {
    const float *g = grad_y + k * step, *v = y + k * step;
    float* out = grad_x + k * step;
    if (shape.log) {
      for (int64_t i = 0; i < width; ++i) {
        out[i] = g[i] - math::exp(v[i]) * static_cast<float>(total[i]);
      }
    } else {
      for (int64_t i = 0; i < width; ++i) out[i] = v[i] * (g[i] - static_cast<float>(total[i]));
    }
  }
}

// Calls body(offset of the first element, width) for every strip of every outer index.
template <class Body>
void for_each_strip(const Softmax& shape, Body body) {
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    for (int64_t first = 0; first < shape.inner; first += kStrip) {
      body(outer * shape.n * shape.inner + first, std::min(kStrip, shape.inner - first));
    }
  }
}

}  // namespace

void softmax(const Softmax& shape, const float* x, float* y) {
  for_each_strip(shape, [&](int64_t start, int64_t width) {
    if (shape.inner == 1) {
      softmax_row(shape.n, shape.log, x + start, y + start);
    } else {
      softmax_strip(shape, width, x + start, y + start);
    }
  });
}

void softmax_backward(const Softmax& shape, const float* grad_y, const float* y, float* grad_x) {
  for_each_strip(shape, [&](int64_t start, int64_t width) {
    if (shape.inner == 1) {
      row_grad(shape.n, shape.log, grad_y + start, y + start, grad_x + start);
    } else {
      strip_grad(shape, width, grad_y + start, y + start, grad_x + start);
    }
  });
}

}  // namespace daf
