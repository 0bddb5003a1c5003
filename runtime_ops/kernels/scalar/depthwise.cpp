#include "runtime_ops/kernels/scalar/depthwise.h"

#include <algorithm>

#include "runtime_ops/kernels/scalar/reduce.h"
#include "runtime_ops/kernels/scalar/span.h"

namespace daf {
namespace {

// ---- rows -------------------------------------------------------------------------------

// y[i] += sum over c of weight[c] * x[i * stride + c * step], nothing of which is padding.
template <int kTaps>
void add_taps(int64_t n, const float* weight, const float* __restrict x, int64_t stride,
              int64_t step, float* __restrict y) {
  float w[kTaps];
  std::copy_n(weight, kTaps, w);
  const auto at = [&](int64_t i) {
    float total = 0;
    for (int c = 0; c < kTaps; ++c) total += w[c] * x[i + c * step];
    return total;
  };
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] += at(i);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] += at(i * stride);
  }
}

// How a row of outputs meets a row of inputs: tap c of output o reads start + o * stride + c *
// step.
struct Row {
  int64_t n_inputs, n_outputs, n_taps, start, stride, step;
  Span whole;  // outputs none of whose taps is padding

  Row(int64_t n_inputs, int64_t n_outputs, int64_t n_taps, int64_t start, int64_t stride,
      int64_t step)
      : n_inputs(n_inputs),
        n_outputs(n_outputs),
        n_taps(n_taps),
        start(start),
        stride(stride),
        step(step) {
    const Span a = outputs_inside(start, stride, n_inputs, n_outputs);
    const Span b = outputs_inside(start + (n_taps - 1) * step, stride, n_inputs, n_outputs);
    whole = {std::max(a.first, b.first), std::min(a.last, b.last)};
    if (whole.first >= whole.last) whole = {0, 0};
  }
};

void correlate_row(const Row& s, const float* weight, const float* x, float* y) {
  const auto add_checked = [&](int64_t first, int64_t last) {
    for (int64_t o = first; o < last; ++o) {
      for (int64_t c = 0; c < s.n_taps; ++c) {
        const int64_t i = s.start + o * s.stride + c * s.step;
        if (i >= 0 && i < s.n_inputs) y[o] += weight[c] * x[i];
      }
    }
  };
  add_checked(0, s.whole.first);
  add_checked(s.whole.last, s.n_outputs);
  const int64_t n = s.whole.last - s.whole.first;
  if (n == 0) return;
  const float* in = x + s.start + s.whole.first * s.stride;
  float* out = y + s.whole.first;
  if (s.n_taps == 3) return add_taps<3>(n, weight, in, s.stride, s.step, out);
  if (s.n_taps == 5) return add_taps<5>(n, weight, in, s.stride, s.step, out);
  for (int64_t c = 0; c < s.n_taps; ++c) {
    add_taps<1>(n, weight + c, in + c * s.step, s.stride, s.step, out);
  }
}

// ---- planes -----------------------------------------------------------------------------

// Calls body(r, input row, output row) for every pair of rows that meet in filter row r.
template <class Body>
void for_each_row_pair(const Conv2d& s, Body body) {
  for (int64_t oh = 0; oh < s.out_h; ++oh) {
    for (int64_t r = 0; r < s.kh; ++r) {
      const int64_t ih = oh * s.stride_h - s.pad_h + r * s.dilation_h;
      if (ih >= 0 && ih < s.h) body(r, ih, oh);
    }
  }
}

// Calls body(input plane, output plane, filter) with the offsets of each pair that meets.
template <class Body>
void for_each_plane_pair(const Conv2d& s, Body body) {
  const int64_t multiplier = s.c_out / s.groups;
  for (int64_t image = 0; image < s.n; ++image) {
    for (int64_t channel = 0; channel < s.c_out; ++channel) {
      body((image * s.c_in + channel / multiplier) * s.h * s.w,
           (image * s.c_out + channel) * s.out_h * s.out_w, channel * s.kh * s.kw);
    }
  }
}

void fill_planes(int64_t images, int64_t channels, int64_t size, const float* bias, float* y) {
  for (int64_t plane = 0; plane < images * channels; ++plane) {
    std::fill_n(y + plane * size, size, bias != nullptr ? bias[plane % channels] : 0.0f);
  }
}

}  // namespace

void depthwise_conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias,
                      float* y) {
  const Row row(s.w, s.out_w, s.kw, -s.pad_w, s.stride_w, s.dilation_w);
  fill_planes(s.n, s.c_out, s.out_h * s.out_w, bias, y);
  for_each_plane_pair(s, [&](int64_t in, int64_t out, int64_t filter) {
    for_each_row_pair(s, [&](int64_t r, int64_t ih, int64_t oh) {
      correlate_row(row, weight + filter + r * s.kw, x + in + ih * s.w, y + out + oh * s.out_w);
    });
  });
}

void depthwise_conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight,
                                 const float* bias, float* grad_x) {
  // With stride 1 it is a correlation too, with taps that go backwards.
  const Row row(s.out_w, s.w, s.kw, s.pad_w, 1, -s.dilation_w);
  fill_planes(s.n, s.c_in, s.h * s.w, bias, grad_x);
  for_each_plane_pair(s, [&](int64_t in, int64_t out, int64_t filter) {
    for_each_row_pair(s, [&](int64_t r, int64_t ih, int64_t oh) {
      const float* w = weight + filter + r * s.kw;
      const float* grad = grad_y + out + oh * s.out_w;
      float* to = grad_x + in + ih * s.w;
      if (s.stride_w == 1) return correlate_row(row, w, grad, to);
      for (int64_t c = 0; c < s.kw; ++c) {
        const int64_t start = c * s.dilation_w - s.pad_w;
        const Span span = outputs_inside(start, s.stride_w, s.w, s.out_w);
        for (int64_t ow = span.first; ow < span.last; ++ow) {
          to[start + ow * s.stride_w] += w[c] * grad[ow];
        }
      }
    });
  });
}

void depthwise_conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x,
                                  float* grad_weight) {
  const int64_t multiplier = s.c_out / s.groups;
  for (int64_t place = 0; place < s.c_out * s.kh * s.kw; ++place) {
    const int64_t c = place % s.kw, r = place / s.kw % s.kh, channel = place / (s.kw * s.kh);
    const int64_t start = c * s.dilation_w - s.pad_w;
    const Span span = outputs_inside(start, s.stride_w, s.w, s.out_w);
    const Span rows = outputs_inside(r * s.dilation_h - s.pad_h, s.stride_h, s.h, s.out_h);
    double total = 0;
    for (int64_t image = 0; image < s.n && span.first < span.last; ++image) {
      const float* in = x + (image * s.c_in + channel / multiplier) * s.h * s.w;
      const float* grad = grad_y + (image * s.c_out + channel) * s.out_h * s.out_w;
      Lanes<float> plane;  // a plane is short enough for float
      for (int64_t oh = rows.first; oh < rows.last; ++oh) {
        const int64_t ih = oh * s.stride_h - s.pad_h + r * s.dilation_h;
        const float* v = in + ih * s.w + start + span.first * s.stride_w;
        const float* g = grad + oh * s.out_w + span.first;
        const int64_t n = span.last - span.first, stride = s.stride_w;
        if (stride == 1) {
          plane.add(n, [=](int64_t i) { return v[i] * g[i]; });
        } else {
          plane.add(n, [=](int64_t i) { return v[i * stride] * g[i]; });
        }
      }
      total += plane.total();
    }
    grad_weight[place] = static_cast<float>(total);
  }
}

}  // namespace daf
