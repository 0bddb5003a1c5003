#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/math.h"
#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/reduce.h"
#include "runtime_ops/kernels/common/softmax_row.h"

namespace daf::DAF_ISA {
namespace {

void softmax_row(int64_t n, bool log, const float* x, float* y) {
  const float largest = max_of_row(n, x);
  const double total = map_and_sum(n, x, y, [=](Vec v) { return math::exp(v - largest); });
  if (log) {
    const float log_total = static_cast<float>(std::log(total));
    map(n, x, y, [=](Vec v) { return v - largest - log_total; });
  } else {
    const float scale = static_cast<float>(1.0 / total);
    map(n, y, y, [=](Vec v) { return v * scale; });
  }
}

// Where all probabilities of a row were rounded to 0, so is its gradient, whatever the mean.
double mean_of(double total, double weights) { return weights == 0 ? 0 : total / weights; }

void row_grad(const Softmax& shape, const float* grad_y, const float* y, float* grad_x) {
  const int64_t n = shape.n;
  if (shape.log) {
    const float total = static_cast<float>(sum(n, grad_y));
    if (shape.keeps_probabilities) {
      return map(n, grad_y, y, grad_x, [=](Vec g, Vec p) { return g - p * total; });
    }
    map(n, grad_y, y, grad_x, [=](Vec g, Vec v) { return g - math::exp(v) * total; });
  } else {
    double total = sum_terms(n, [=](auto at) { return at(grad_y) * at(y); });
    if (shape.keeps_probabilities) total = mean_of(total, sum(n, y));
    const float mean = static_cast<float>(total);
    map(n, grad_y, y, grad_x, [=](Vec g, Vec v) { return v * (g - mean); });
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
    for (int64_t i = 0; i < width; ++i) largest[i] = in[i] > largest[i] ? in[i] : largest[i];
  }
  for (int64_t k = 0; k < n; ++k) {
    const float* in = x + k * step;
    float* out = y + k * step;
    map(width, in, largest, out, [](Vec v, Vec most) { return math::exp(v - most); });
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
  double total[kStrip], weights[kStrip];
  std::fill_n(total, width, 0.0);
  std::fill_n(weights, width, 0.0);
  for (int64_t k = 0; k < n; ++k) {
    const float *g = grad_y + k * step, *v = y + k * step;
    for (int64_t i = 0; i < width; ++i) {
      total[i] += shape.log ? g[i] : static_cast<double>(g[i]) * v[i];
      weights[i] += v[i];
    }
  }
  if (!shape.log && shape.keeps_probabilities) {
    for (int64_t i = 0; i < width; ++i) total[i] = mean_of(total[i], weights[i]);
  }
  for (int64_t k = 0; k < n; ++k) {
    const float *g = grad_y + k * step, *v = y + k * step;
    float* out = grad_x + k * step;
    if (shape.log) {
      float p[kStrip];
      if (shape.keeps_probabilities) {
        std::copy_n(v, width, p);
      } else {
        map(width, v, p, [](Vec log_p) { return math::exp(log_p); });
      }
      for (int64_t i = 0; i < width; ++i) out[i] = g[i] - p[i] * static_cast<float>(total[i]);
    } else {
      for (int64_t i = 0; i < width; ++i) out[i] = v[i] * (g[i] - static_cast<float>(total[i]));
    }
  }
}

// Calls body(offset of the first element, width) for every strip of every outer index.
template <class Body>
void for_each_strip(const Softmax& shape, Body body) {
  constexpr int64_t kCost = 8;  // of an element, in additions
  const int64_t width = std::min(kStrip, shape.inner),
                n_strips = (shape.inner + kStrip - 1) / kStrip;
  for_each_range(shape.outer * n_strips, kCost * shape.n * width, [&](int64_t from, int64_t to) {
    for (int64_t strip = from; strip < to; ++strip) {
      const int64_t first = strip % n_strips * kStrip;
      body(strip / n_strips * shape.n * shape.inner + first, std::min(kStrip, shape.inner - first));
    }
  });
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

void masked_softmax(int n_dims, const int64_t* sizes, const int64_t* mask_strides, const float* x,
                    const float* mask, float* y) {
  constexpr int64_t kCost = 8;
  const int64_t n = sizes[n_dims - 1], step = mask_strides[n_dims - 1];
  int64_t n_rows = 1;
  for (int axis = 0; axis + 1 < n_dims; ++axis) n_rows *= sizes[axis];
  for_each_range(n_rows, kCost * n, [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; ++row) {
      const float* added = mask;
      for (int64_t axis = n_dims - 2, rest = row; axis >= 0; rest /= sizes[axis--]) {
        added += rest % sizes[axis] * mask_strides[axis];
      }
      const float* in = x + row * n;
      float* out = y + row * n;
      if (step != 0) {
        map(n, in, added, out, [](Vec v, Vec m) { return v + m; });
      } else {
        map(n, in, out, [m = splat(*added)](Vec v) { return v + m; });
      }
      softmax_row(n, false, out, out);
    }
  });
}

void softmax_backward(const Softmax& shape, const float* grad_y, const float* y, float* grad_x) {
  for_each_strip(shape, [&](int64_t start, int64_t width) {
    if (shape.inner == 1) {
      row_grad(shape, grad_y + start, y + start, grad_x + start);
    } else {
      strip_grad(shape, width, grad_y + start, y + start, grad_x + start);
    }
  });
}

}  // namespace daf::DAF_ISA
