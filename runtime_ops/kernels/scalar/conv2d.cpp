// Convolution as matrix products, one per group, over the pixels of the whole batch:
//
//   y[channel, pixel]       = weight[channel, tap] * columns[tap, pixel]
//   grad_weight[chan., tap] = grad_y[channel, pixel] * columns^T[pixel, tap]
//   columns' gradient       = weight^T[tap, channel] * grad_y[channel, pixel], added up into x
//
// Where a filter is a single place the columns are x itself. Depthwise convolution has too few
// channels per group for a matrix product and goes to depthwise.h.
#include <algorithm>

#include "runtime_ops/kernels/conv2d_packers.h"
#include "runtime_ops/kernels/gemm_driver.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/kernels/scalar/depthwise.h"
#include "runtime_ops/kernels/scalar/micro_kernel.h"

namespace daf {
namespace {

using Panels = GemmPanels<ScalarMicroKernel>;

bool is_depthwise(const Conv2d& s) { return s.groups == s.c_in && s.groups > 1; }

bool is_pointwise(const Conv2d& s) {
  return s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_h == 0 &&
         s.pad_w == 0 && s.out_h == s.h && s.out_w == s.w;
}

// Sizes of the products of one group.
struct Sizes {
  int64_t channels_in, channels_out, taps, pixels;

  explicit Sizes(const Conv2d& s)
      : channels_in(s.c_in / s.groups),
        channels_out(s.c_out / s.groups),
        taps(channels_in * s.kh * s.kw),
        pixels(s.n * s.out_h * s.out_w) {}
};

template <class Float>
Planes<Float> input_group(const Conv2d& s, Float* x, int64_t group) {
  return {x + group * (s.c_in / s.groups) * s.h * s.w, s.h * s.w, s.c_in * s.h * s.w};
}

template <class Float>
Planes<Float> output_group(const Conv2d& s, Float* y, int64_t group) {
  const int64_t spatial = s.out_h * s.out_w;
  return {y + group * (s.c_out / s.groups) * spatial, spatial, s.c_out * spatial};
}

}  // namespace

void conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias, float* y,
            Scratch& scratch) {
  if (is_depthwise(s)) return depthwise_conv2d(s, x, weight, bias, y);
  const Sizes size(s);
  const Panels panels(size.channels_out, size.pixels, size.taps, scratch);
  for (int64_t group = 0; group < s.groups; ++group) {
    const int64_t channel = group * size.channels_out;
    const MatrixPacker filters{weight + channel * size.taps, size.taps, 1};
    const PlacesWriter write{output_group(s, y, group), bias != nullptr ? bias + channel : nullptr};
    const auto multiply = [&](const auto& columns) {
      blocked_gemm(size.channels_out, size.pixels, size.taps, filters, columns, write, panels);
    };
    if (is_pointwise(s)) {
      multiply(PlacesPacker{input_group(s, x, group)});
    } else {
      multiply(Im2colPacker{s, input_group(s, x, group)});
    }
  }
}

void conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x, float* grad_weight,
                        Scratch& scratch) {
  if (is_depthwise(s)) return depthwise_conv2d_weight_grad(s, grad_y, x, grad_weight);
  const Sizes size(s);
  const Panels panels(size.channels_out, size.taps, size.pixels, scratch);
  for (int64_t group = 0; group < s.groups; ++group) {
    const ChannelsPacker grads{output_group(s, grad_y, group)};
    const MatrixWriter write{grad_weight + group * size.channels_out * size.taps, size.taps,
                             nullptr};
    const auto multiply = [&](const auto& columns) {
      blocked_gemm(size.channels_out, size.taps, size.pixels, grads, columns, write, panels);
    };
    if (is_pointwise(s)) {
      multiply(ChannelsPacker{input_group(s, x, group)});
    } else {
      multiply(Im2colTransposedPacker{s, input_group(s, x, group)});
    }
  }
}

void conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight, const float* bias,
                       float* grad_x, Scratch& scratch) {
  if (is_depthwise(s)) return depthwise_conv2d_input_grad(s, grad_y, weight, bias, grad_x);
  const Sizes size(s);
  const Panels panels(size.taps, size.pixels, size.channels_out, scratch);
  if (!is_pointwise(s)) {
    for (int64_t plane = 0; plane < s.n * s.c_in; ++plane) {
      std::fill_n(grad_x + plane * s.h * s.w, s.h * s.w,
                  bias != nullptr ? bias[plane % s.c_in] : 0.0f);
    }
  }
  for (int64_t group = 0; group < s.groups; ++group) {
    const MatrixPacker filters{weight + group * size.channels_out * size.taps, 1, size.taps};
    const PlacesPacker grads{output_group(s, grad_y, group)};
    const auto multiply = [&](const auto& write) {
      blocked_gemm(size.taps, size.pixels, size.channels_out, filters, grads, write, panels);
    };
    if (is_pointwise(s)) {
      multiply(PlacesWriter{input_group(s, grad_x, group),
                            bias != nullptr ? bias + group * size.channels_in : nullptr});
    } else {
      multiply(Col2imWriter{s, input_group(s, grad_x, group)});
    }
  }
}

}  // namespace daf
