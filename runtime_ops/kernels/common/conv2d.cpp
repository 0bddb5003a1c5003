// Convolution as matrix products, one per group, over the pixels of the whole batch:
//
//   y[channel, pixel]       = weight[channel, tap] * columns[tap, pixel]
//   grad_weight[chan., tap] = grad_y[channel, pixel] * columns^T[pixel, tap]
//   grad_x[channel, place]  = weight'[channel, tap'] * columns'[tap', place]
//
// The last is a convolution of grad_y, in which the taps go backwards. With a stride, places of x
// that are a stride apart see the same taps, and those of different phase see different ones: one
// product per phase. So every result is written once, and nothing is added up in memory.
//
// Depthwise convolution has too few channels per group for a matrix product and goes to
// depthwise.h.
#include <algorithm>
#include <numeric>

#include "runtime_ops/kernels/common/depthwise.h"
#include "runtime_ops/kernels/common/gemm_driver.h"
#include "runtime_ops/kernels/common/im2col.h"
#include "runtime_ops/kernels/common/matrix_packer.h"
#include "runtime_ops/kernels/common/places_writer.h"
#include "runtime_ops/kernels/common/winograd.h"

namespace daf::DAF_ISA {
namespace {

bool is_depthwise(const Conv2d& s) { return s.groups == s.c_in && s.groups > 1; }

// Sizes of the products of one group.
struct Sizes {
  int64_t channels_in, channels_out, taps, pixels;

  explicit Sizes(const Conv2d& s)
      : channels_in(s.c_in / s.groups),
        channels_out(s.c_out / s.groups),
        taps(channels_in * s.kh * s.kw),
        pixels(s.n * s.out_h * s.out_w) {}
};

Windows forward_windows(const Conv2d& s) {
  return {{s.h, s.out_h, s.stride_h, -s.pad_h, s.kh, s.dilation_h},
          {s.w, s.out_w, s.stride_w, -s.pad_w, s.kw, s.dilation_w}};
}

template <class Float>
Planes<Float> input_group(const Conv2d& s, Float* x, int64_t group) {
  return {x + group * (s.c_in / s.groups) * s.h * s.w, s.h * s.w, s.c_in * s.h * s.w};
}

template <class Float>
Planes<Float> output_group(const Conv2d& s, Float* y, int64_t group) {
  const int64_t spatial = s.out_h * s.out_w;
  return {y + group * (s.c_out / s.groups) * spatial, spatial, s.c_out * spatial};
}

// ---- input gradient ---------------------------------------------------------------------

// Along one axis: the places first, first + stride ... of x, and the taps tap0, tap0 + tap_step ...
// that reach them; the others fall between two of them.
struct Phase {
  int64_t first, tap0, tap_step;
  Axis axis;  // how those places read grad_y

  Phase(int64_t first, int64_t size, int64_t n_outputs, int64_t n_taps, int64_t stride,
        int64_t dilation, int64_t pad)
      : first(first), tap0(0), tap_step(stride / std::gcd(stride, dilation)) {
    while (tap0 < n_taps && (first + pad - tap0 * dilation) % stride != 0) ++tap0;
    axis = {n_outputs,
            first < size ? (size - first + stride - 1) / stride : 0,
            1,
            (first + pad - tap0 * dilation) / stride,
            tap0 < n_taps ? (n_taps - tap0 + tap_step - 1) / tap_step : 0,
            -(dilation * tap_step) / stride};
  }
};

// weight[c_out, c_in, kh, kw] of one group as [c_in, (c_out, taps of a phase)].
struct BackwardFilters {
  const float* weight;
  int64_t channels_in, kh, kw;
  const Phase &h, &w;

  template <int kSize>
  void pack(int64_t first, int64_t count, int64_t p0, int64_t depth, float* panel) const {
    if (depth == 0) return;  // no taps at all
    const int64_t n_h = h.axis.n_taps, n_w = w.axis.n_taps, filter = kh * kw;
    int64_t channel = p0 / (n_h * n_w), r = p0 / n_w % n_h, c = p0 % n_w;
    for (int64_t p = 0; p < depth; ++p, panel += kSize) {
      const float* source = weight + (channel * channels_in + first) * filter +
                            (h.tap0 + r * h.tap_step) * kw + w.tap0 + c * w.tap_step;
      if (count == kSize) {
        for (int i = 0; i < kSize; ++i) panel[i] = source[i * filter];
      } else {
        for (int64_t i = 0; i < kSize; ++i) panel[i] = i < count ? source[i * filter] : 0.0f;
      }
      if (++c == n_w) {
        c = 0;
        if (++r == n_h) r = 0, ++channel;
      }
    }
  }
};

// A few channels of all panels at a time: in memory the panels of a channel follow each other.
template <int kSize>
void pack_block(const BackwardFilters& filters, int64_t first, int64_t count, int64_t p0,
                int64_t depth, float* block) {
  constexpr int64_t kStep = 32;
  for (int64_t p = 0; p < depth; p += kStep) {
    for (int64_t i = 0; i < count; i += kSize) {
      filters.pack<kSize>(first + i, std::min<int64_t>(kSize, count - i), p0 + p,
                          std::min(kStep, depth - p), block + i * depth + p * kSize);
    }
  }
}

// Calls body(h phase, w phase) for those that have places in x.
template <class Body>
void for_each_phase(const Conv2d& s, Body body) {
  for (int64_t i = 0; i < std::min(s.stride_h, s.h); ++i) {
    const Phase h(i, s.h, s.out_h, s.kh, s.stride_h, s.dilation_h, s.pad_h);
    for (int64_t j = 0; j < std::min(s.stride_w, s.w); ++j) {
      body(h, Phase(j, s.w, s.out_w, s.kw, s.stride_w, s.dilation_w, s.pad_w));
    }
  }
}

}  // namespace

void conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias, float* y,
            Scratch& scratch) {
  if (is_depthwise(s)) return depthwise_conv2d(s, x, weight, bias, y, scratch);
  if (winograd_pays(s, Pass::kForward)) return winograd_conv2d(s, x, weight, bias, y, scratch);
  const Sizes size(s);
  const Windows windows = forward_windows(s).flat();
  const GemmPanels panels = take_panels(size.channels_out, size.pixels, size.taps, scratch);
  for (int64_t group = 0; group < s.groups; ++group) {
    const int64_t channel = group * size.channels_out;
    const MatrixPacker filters{weight + channel * size.taps, size.taps, 1};
    const Im2colPacker columns{windows, input_group(s, x, group)};
    const PlacesWriter write{output_group(s, y, group), bias != nullptr ? bias + channel : nullptr};
    blocked_gemm(size.channels_out, size.pixels, size.taps, filters, columns, write, panels);
  }
}

void conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x, bool accumulate,
                        float* grad_weight, Scratch& scratch) {
  const Sizes size(s);
  if (is_depthwise(s) && accumulate) {
    const int64_t n = s.c_out * size.taps;
    float* part = scratch.take<float>(static_cast<size_t>(n));
    depthwise_conv2d_weight_grad(s, grad_y, x, part, scratch);
    return add_to(n, part, grad_weight);
  }
  if (is_depthwise(s)) return depthwise_conv2d_weight_grad(s, grad_y, x, grad_weight, scratch);
  if (winograd_pays(s, Pass::kWeightGrad)) {
    return winograd_conv2d_weight_grad(s, grad_y, x, accumulate, grad_weight, scratch);
  }
  const Windows windows = forward_windows(s);
  const GemmPanels panels = take_panels(size.channels_out, size.taps, size.pixels, scratch);
  for (int64_t group = 0; group < s.groups; ++group) {
    const ChannelsPacker grads{output_group(s, grad_y, group)};
    float* result = grad_weight + group * size.channels_out * size.taps;
    const float* addend = accumulate ? result : nullptr;
    const MatrixWriter write{result, size.taps, {1.0f, nullptr, addend}};
    const auto multiply = [&](const auto& columns) {
      blocked_gemm(size.channels_out, size.taps, size.pixels, grads, columns, write, panels);
    };
    if (windows.is_plain()) {
      multiply(ChannelsPacker{input_group(s, x, group)});
    } else {
      multiply(Im2colTransposedPacker{windows, input_group(s, x, group)});
    }
  }
}

void conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight, const float* bias,
                       float* grad_x, Scratch& scratch) {
  if (is_depthwise(s)) {
    return depthwise_conv2d_input_grad(s, grad_y, weight, bias, grad_x, scratch);
  }
  if (winograd_pays(s, Pass::kInputGrad)) {
    return winograd_conv2d_input_grad(s, grad_y, weight, bias, grad_x, scratch);
  }
  const Sizes size(s);
  const auto n_places = [&](const Windows& windows) { return s.n * windows.n_pixels(); };
  const auto depth_of = [&](const Windows& windows) {
    return size.channels_out * windows.n_taps();
  };
  const bool has_stride = s.stride_h != 1 || s.stride_w != 1;
  GemmPanels panels;
  for_each_phase(s, [&](const Phase& h, const Phase& w) {
    const Windows windows = {h.axis, w.axis};
    panels.add_product(size.channels_in, n_places(windows), depth_of(windows));
  });
  panels.take(scratch);
  for_each_phase(s, [&](const Phase& h, const Phase& w) {
    const Windows windows = {h.axis, w.axis};
    const int64_t places = n_places(windows), depth = depth_of(windows);
    for (int64_t group = 0; group < s.groups; ++group) {
      const BackwardFilters filters{
          weight + group * size.channels_out * size.taps, size.channels_in, s.kh, s.kw, h, w};
      const Windows flat = has_stride ? windows : windows.flat();
      const Im2colPacker columns{flat, output_group(s, grad_y, group)};
      const Planes<float> to = input_group(s, grad_x, group);
      const float* shift = bias != nullptr ? bias + group * size.channels_in : nullptr;
      if (!has_stride) {
        blocked_gemm(size.channels_in, places, depth, filters, columns, PlacesWriter{to, shift},
                     panels);
      } else {
        const StridedWriter write{windows, to,         s.w,        h.first,
                                  w.first, s.stride_h, s.stride_w, shift};
        blocked_gemm(size.channels_in, places, depth, filters, columns, write, panels);
      }
    }
  });
}

}  // namespace daf::DAF_ISA
