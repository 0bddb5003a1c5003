#include "runtime_ops/kernels/scalar/depthwise.h"

#include <algorithm>

#include "runtime_ops/kernels/scalar/reduce.h"

namespace daf {
namespace {

// Calls body(x offset, y offset, n) for every run of a row in which one filter place (r, c) meets
// the input plane: x[i * stride_w] goes with y[i] for i in [0, n).
template <class Body>
void for_each_run(const Conv2d& s, int64_t r, int64_t c, Body body) {
  const int64_t left = c * s.dilation_w - s.pad_w;  // input column of output column 0
  const int64_t first = left < 0 ? (-left + s.stride_w - 1) / s.stride_w : 0;
  const int64_t last =  // one past
      left < s.w ? std::min(s.out_w, (s.w - left + s.stride_w - 1) / s.stride_w) : 0;
  if (first >= last) return;
  for (int64_t oh = 0; oh < s.out_h; ++oh) {
    const int64_t ih = oh * s.stride_h - s.pad_h + r * s.dilation_h;
    if (ih < 0 || ih >= s.h) continue;
    body(ih * s.w + left + first * s.stride_w, oh * s.out_w + first, last - first);
  }
}

// Calls body(image, output channel, its input channel).
template <class Body>
void for_each_map(const Conv2d& s, Body body) {
  const int64_t multiplier = s.c_out / s.groups;
  for (int64_t image = 0; image < s.n; ++image) {
    for (int64_t channel = 0; channel < s.c_out; ++channel) {
      body(image, channel, channel / multiplier);
    }
  }
}

}  // namespace

void depthwise_conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias,
                      float* y) {
  for_each_map(s, [&](int64_t image, int64_t channel, int64_t channel_in) {
    const float* in = x + (image * s.c_in + channel_in) * s.h * s.w;
    float* out = y + (image * s.c_out + channel) * s.out_h * s.out_w;
    std::fill_n(out, s.out_h * s.out_w, bias != nullptr ? bias[channel] : 0.0f);
    for (int64_t place = 0; place < s.kh * s.kw; ++place) {
      const float factor = weight[channel * s.kh * s.kw + place];
      for_each_run(s, place / s.kw, place % s.kw, [&](int64_t from, int64_t to, int64_t n) {
        const float* v = in + from;
        float* o = out + to;
        if (s.stride_w == 1) {
          for (int64_t i = 0; i < n; ++i) o[i] += factor * v[i];
        } else {
          for (int64_t i = 0; i < n; ++i) o[i] += factor * v[i * s.stride_w];
        }
      });
    }
  });
}

void depthwise_conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight,
                                 const float* bias, float* grad_x) {
  for (int64_t plane = 0; plane < s.n * s.c_in; ++plane) {
    std::fill_n(grad_x + plane * s.h * s.w, s.h * s.w,
                bias != nullptr ? bias[plane % s.c_in] : 0.0f);
  }
  for_each_map(s, [&](int64_t image, int64_t channel, int64_t channel_in) {
    const float* grad = grad_y + (image * s.c_out + channel) * s.out_h * s.out_w;
    float* out = grad_x + (image * s.c_in + channel_in) * s.h * s.w;
    for (int64_t place = 0; place < s.kh * s.kw; ++place) {
      const float factor = weight[channel * s.kh * s.kw + place];
      for_each_run(s, place / s.kw, place % s.kw, [&](int64_t to, int64_t from, int64_t n) {
        const float* g = grad + from;
        float* o = out + to;
        if (s.stride_w == 1) {
          for (int64_t i = 0; i < n; ++i) o[i] += factor * g[i];
        } else {
          for (int64_t i = 0; i < n; ++i) o[i * s.stride_w] += factor * g[i];
        }
      });
    }
  });
}

void depthwise_conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x,
                                  float* grad_weight) {
  const int64_t multiplier = s.c_out / s.groups;
  for (int64_t channel = 0; channel < s.c_out; ++channel) {
    for (int64_t place = 0; place < s.kh * s.kw; ++place) {
      double total = 0;
      for (int64_t image = 0; image < s.n; ++image) {
        const float* in = x + (image * s.c_in + channel / multiplier) * s.h * s.w;
        const float* grad = grad_y + (image * s.c_out + channel) * s.out_h * s.out_w;
        for_each_run(s, place / s.kw, place % s.kw, [&](int64_t xi, int64_t yi, int64_t n) {
          const float* v = in + xi;
          const float* g = grad + yi;
          const int64_t stride = s.stride_w;
          // Rows are short: float within one, double over all.
          if (stride == 1) {
            total += sum_terms<float>(n, [=](int64_t i) { return v[i] * g[i]; });
          } else {
            total += sum_terms<float>(n, [=](int64_t i) { return v[i * stride] * g[i]; });
          }
        });
      }
      grad_weight[channel * s.kh * s.kw + place] = static_cast<float>(total);
    }
  }
}

}  // namespace daf
