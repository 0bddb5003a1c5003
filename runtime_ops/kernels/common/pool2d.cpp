#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/span.h"

namespace daf::DAF_ISA {
namespace {

// Calls body(plane, oh, ow, output offset) in memory order, within a plane; `cost` is that of an
// output.
template <class Body>
void for_each_output(int64_t planes, int64_t out_h, int64_t out_w, int64_t cost, Body body) {
  for_each_range(planes, out_h * out_w * cost, [&](int64_t first, int64_t last) {
    int64_t offset = first * out_h * out_w;
    for (int64_t plane = first; plane < last; ++plane) {
      for (int64_t oh = 0; oh < out_h; ++oh) {
        for (int64_t ow = 0; ow < out_w; ++ow) body(plane, oh, ow, offset++);
      }
    }
  });
}

// The part of a map that one output averages.
struct Window {
  int64_t h0, h1, w0, w1;
  float divisor;

  bool empty() const { return h0 >= h1 || w0 >= w1; }
};

Window average_window(const Pool2d& s, bool count_include_pad, int64_t divisor_override, int64_t oh,
                      int64_t ow) {
  const int64_t h0 = oh * s.stride_h - s.pad_h, h1 = std::min(h0 + s.kh, s.h + s.pad_h);
  const int64_t w0 = ow * s.stride_w - s.pad_w, w1 = std::min(w0 + s.kw, s.w + s.pad_w);
  Window window = {std::max<int64_t>(h0, 0), std::min(h1, s.h), std::max<int64_t>(w0, 0),
                   std::min(w1, s.w), 1.0f};
  const int64_t padded = (h1 - h0) * (w1 - w0);
  const int64_t inside = (window.h1 - window.h0) * (window.w1 - window.w0);
  const int64_t count = count_include_pad ? padded : inside;
  window.divisor = static_cast<float>(divisor_override != 0 ? divisor_override : count);
  return window;
}

Window adaptive_window(int64_t h, int64_t w, int64_t out_h, int64_t out_w, int64_t oh, int64_t ow) {
  Window window = {oh * h / out_h, ((oh + 1) * h + out_h - 1) / out_h, ow * w / out_w,
                   ((ow + 1) * w + out_w - 1) / out_w, 1.0f};
  window.divisor = static_cast<float>((window.h1 - window.h0) * (window.w1 - window.w0));
  return window;
}

float average(const float* map, int64_t w, const Window& window) {
  if (window.empty()) return 0.0f;
  double total = 0;
  for (int64_t ih = window.h0; ih < window.h1; ++ih) {
    for (int64_t iw = window.w0; iw < window.w1; ++iw) total += map[ih * w + iw];
  }
  return static_cast<float>(total / window.divisor);
}

void spread(float grad, float* map, int64_t w, const Window& window) {
  if (window.empty()) return;
  const float share = grad / window.divisor;
  for (int64_t ih = window.h0; ih < window.h1; ++ih) {
    for (int64_t iw = window.w0; iw < window.w1; ++iw) map[ih * w + iw] += share;
  }
}

// The first place of a window that is not padding: what a window of nothing but -inf takes.
template <class Index>
Index first_inside(const Pool2d& s, int64_t top, int64_t ow) {
  const int64_t left = ow * s.stride_w - s.pad_w;
  const int64_t r = top < 0 ? (-top + s.dilation_h - 1) / s.dilation_h : 0;
  const int64_t c = left < 0 ? (-left + s.dilation_w - 1) / s.dilation_w : 0;
  return static_cast<Index>(std::min(r, s.kh - 1) * s.kw + std::min(c, s.kw - 1));
}

// One place of the windows of an output row. Selected by mask, not branched on: where the maximum
// lies cannot be predicted.
template <class Index>
void take_larger(Span span, const float* x, int64_t left, int64_t stride, Index place, float* y,
                 Index* offset) {
  for (int64_t ow = span.first; ow < span.last; ++ow) {
    const float v = x[left + ow * stride], largest = y[ow];
    const bool wins = (v > largest) | std::isnan(v);
    const Index mask = static_cast<Index>(-static_cast<Index>(wins));
    y[ow] = wins ? v : largest;
    offset[ow] = static_cast<Index>((place & mask) | (offset[ow] & ~mask));
  }
}

template <class Index>
void max_pool_row(const Pool2d& s, int64_t row, const float* x, float* y, Index* offset) {
  const float* map = x + row / s.out_h * s.h * s.w;
  const int64_t top = row % s.out_h * s.stride_h - s.pad_h;
  std::fill_n(y, s.out_w, -std::numeric_limits<float>::infinity());
  for (int64_t ow = 0; ow < s.out_w; ++ow) offset[ow] = first_inside<Index>(s, top, ow);
  for (int64_t place = 0; place < s.kh * s.kw; ++place) {
    const int64_t ih = top + place / s.kw * s.dilation_h;
    if (ih < 0 || ih >= s.h) continue;
    const int64_t left = place % s.kw * s.dilation_w - s.pad_w;
    const Span span = outputs_inside(left, s.stride_w, s.w, s.out_w);
    take_larger(span, map + ih * s.w, left, s.stride_w, static_cast<Index>(place), y, offset);
  }
}

template <class Index>
void max_pool(const Pool2d& s, const float* x, float* y, Index* offset) {
  for_each_range(s.planes * s.out_h, s.out_w * s.kh * s.kw, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      max_pool_row(s, row, x, y + row * s.out_w, offset + row * s.out_w);
    }
  });
}

template <class Index>
void max_pool_backward(const Pool2d& s, const float* grad_y, const Index* offset, float* grad_x) {
  std::fill(grad_x, grad_x + s.planes * s.h * s.w, 0.0f);
  for_each_output(s.planes, s.out_h, s.out_w, 4,
                  [&](int64_t plane, int64_t oh, int64_t ow, int64_t o) {
                    const int64_t place = offset[o];
                    const int64_t ih = oh * s.stride_h - s.pad_h + place / s.kw * s.dilation_h;
                    const int64_t iw = ow * s.stride_w - s.pad_w + place % s.kw * s.dilation_w;
                    // Outside only where the whole window was padding.
                    if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) return;
                    grad_x[(plane * s.h + ih) * s.w + iw] += grad_y[o];
                  });
}

}  // namespace

void max_pool2d_u8(const Pool2d& s, const float* x, float* y, uint8_t* offset) {
  max_pool(s, x, y, offset);
}
void max_pool2d_i32(const Pool2d& s, const float* x, float* y, int32_t* offset) {
  max_pool(s, x, y, offset);
}
void max_pool2d_backward_u8(const Pool2d& s, const float* grad_y, const uint8_t* offset,
                            float* grad_x) {
  max_pool_backward(s, grad_y, offset, grad_x);
}
void max_pool2d_backward_i32(const Pool2d& s, const float* grad_y, const int32_t* offset,
                             float* grad_x) {
  max_pool_backward(s, grad_y, offset, grad_x);
}

void avg_pool2d(const Pool2d& s, bool count_include_pad, int64_t divisor_override, const float* x,
                float* y) {
  for_each_output(s.planes, s.out_h, s.out_w, s.kh * s.kw,
                  [&](int64_t plane, int64_t oh, int64_t ow, int64_t o) {
                    y[o] = average(x + plane * s.h * s.w, s.w,
                                   average_window(s, count_include_pad, divisor_override, oh, ow));
                  });
}

void avg_pool2d_backward(const Pool2d& s, bool count_include_pad, int64_t divisor_override,
                         const float* grad_y, float* grad_x) {
  std::fill(grad_x, grad_x + s.planes * s.h * s.w, 0.0f);
  for_each_output(s.planes, s.out_h, s.out_w, s.kh * s.kw,
                  [&](int64_t plane, int64_t oh, int64_t ow, int64_t o) {
                    spread(grad_y[o], grad_x + plane * s.h * s.w, s.w,
                           average_window(s, count_include_pad, divisor_override, oh, ow));
                  });
}

void adaptive_avg_pool2d(int64_t planes, int64_t h, int64_t w, int64_t out_h, int64_t out_w,
                         const float* x, float* y) {
  for_each_output(planes, out_h, out_w, h * w / (out_h * out_w),
                  [&](int64_t plane, int64_t oh, int64_t ow, int64_t o) {
                    y[o] =
                        average(x + plane * h * w, w, adaptive_window(h, w, out_h, out_w, oh, ow));
                  });
}

void adaptive_avg_pool2d_backward(int64_t planes, int64_t h, int64_t w, int64_t out_h,
                                  int64_t out_w, const float* grad_y, float* grad_x) {
  std::fill(grad_x, grad_x + planes * h * w, 0.0f);
  for_each_output(planes, out_h, out_w, h * w / (out_h * out_w),
                  [&](int64_t plane, int64_t oh, int64_t ow, int64_t o) {
                    spread(grad_y[o], grad_x + plane * h * w, w,
                           adaptive_window(h, w, out_h, out_w, oh, ow));
                  });
}

}  // namespace daf::DAF_ISA
