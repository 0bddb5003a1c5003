#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/spatial.h"

namespace daf::ops {
namespace {

constexpr int64_t kAxes = 2;
constexpr Extent kNoDilation{1, 1};

struct Windows {
  Extent kernel, stride, padding, dilation;
};

Windows read_windows(Arguments& args, bool has_dilation) {
  Windows windows;
  windows.kernel = extent(args, "kernel", kAxes, 1, 1);
  windows.stride = extent(args, "stride", kAxes, 1, 1);
  windows.padding = extent(args, "padding", kAxes, 0, 0);
  windows.dilation = has_dilation ? extent(args, "dilation", kAxes, 1, 1) : kNoDilation;
  return windows;
}

template <class T>
Extent map_size(const Arguments& args, const Array<T>& map) {
  args.require_rank(map, 2, Shape::kMaxRank);
  return Extent{map.size(map.rank() - 2), map.size(map.rank() - 1)};
}

Shape with_map_size(const Shape& shape, Extent size) {
  Shape result = shape.slice(0, shape.rank() - 2);
  result.append(size.h);
  result.append(size.w);
  return result;
}

int64_t n_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                  bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  if (size < 1 || room < 0) return 0;
  const int64_t n = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // PyTorch's rule: the last window starts inside the map or its left padding.
  return ceil_mode && (n - 1) * stride >= size + padding ? n - 1 : n;
}

Extent pooled_size(Extent size, const Windows& windows, bool ceil_mode) {
  const auto& [kernel, stride, padding, dilation] = windows;
  return Extent{n_windows(size.h, kernel.h, stride.h, padding.h, dilation.h, ceil_mode),
                n_windows(size.w, kernel.w, stride.w, padding.w, dilation.w, ceil_mode)};
}

// Of maps [..., input] -> [..., output]; `leading` has the axes before.
Pool2d pool2d_shape(const Arguments& args, const Shape& leading, Extent input,
                    const Windows& windows, Extent output) {
  const auto& [kernel, stride, padding, dilation] = windows;
  args.require(2 * padding.h <= dilation.h * (kernel.h - 1) + 1 &&
                   2 * padding.w <= dilation.w * (kernel.w - 1) + 1,
               "padding ", padding.h, "x", padding.w, " is more than half of the window ", kernel.h,
               "x", kernel.w);
  args.require(output.h >= 1 && output.w >= 1, "no window of ", kernel.h, "x", kernel.w,
               " fits into a map of ", input.h, "x", input.w);
  return Pool2d{leading.product(0, leading.rank() - 2),
                input.h,
                input.w,
                kernel.h,
                kernel.w,
                stride.h,
                stride.w,
                padding.h,
                padding.w,
                dilation.h,
                dilation.w,
                output.h,
                output.w};
}

// Backward has no ceil_mode: the gradient's own size says which it was.
void require_pooled(const Arguments& args, Extent input, const Windows& windows, Extent output) {
  const auto matches = [&](bool ceil_mode) {
    const Extent expected = pooled_size(input, windows, ceil_mode);
    return expected.h == output.h && expected.w == output.w;
  };
  args.require(matches(false) || matches(true), "a map of ", input.h, "x", input.w,
               " does not pool to ", output.h, "x", output.w);
}

bool offsets_are_bytes(const Windows& windows) {
  return windows.kernel.h * windows.kernel.w <= 256;
}

template <class Index>
void run_max_pool2d(Arguments& args, const Pool2d& shape, const Floats& x, const Shape& y_shape) {
  const Array<float> y = args.output("out0", y_shape);
  const Array<Index> offset = args.output<Index>("out1", y_shape);
  daf::max_pool2d<Index>(shape, x.data, y.data, offset.data);
}

template <class Index>
void run_max_pool2d_backward(Arguments& args, const Floats& grad) {
  const Array<const Index> offset = args.tensor<Index>("offset");
  const Extent input = extent(args, "input_size", kAxes, 1, 1);
  const Windows windows = read_windows(args, true);
  const Extent output = map_size(args, grad);
  const Pool2d shape = pool2d_shape(args, grad.shape, input, windows, output);
  require_pooled(args, input, windows, output);
  args.require_shape(offset, grad.shape);

  const Array<float> grad_x = args.output("out", with_map_size(grad.shape, input));
  daf::max_pool2d_backward<Index>(shape, grad.data, offset.data, grad_x.data);
}

}  // namespace

void max_pool2d(Arguments& args) {
  const Floats x = args.floats("x");
  const Windows windows = read_windows(args, true);
  const bool ceil_mode = args.boolean("ceil_mode");
  const Extent input = map_size(args, x);
  const Extent output = pooled_size(input, windows, ceil_mode);
  const Pool2d shape = pool2d_shape(args, x.shape, input, windows, output);
  const Shape y_shape = with_map_size(x.shape, output);
  if (offsets_are_bytes(windows)) {
    run_max_pool2d<uint8_t>(args, shape, x, y_shape);
  } else {
    run_max_pool2d<int32_t>(args, shape, x, y_shape);
  }
}

void max_pool2d_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  if (args.next_is<uint8_t>()) {
    run_max_pool2d_backward<uint8_t>(args, grad);
  } else {
    run_max_pool2d_backward<int32_t>(args, grad);
  }
}

void avg_pool2d(Arguments& args) {
  const Floats x = args.floats("x");
  const Windows windows = read_windows(args, false);
  const bool ceil_mode = args.boolean("ceil_mode");
  const bool count_include_pad = args.boolean("count_include_pad");
  const int64_t divisor = args.integer("divisor");
  const Extent input = map_size(args, x);
  const Extent output = pooled_size(input, windows, ceil_mode);
  const Pool2d shape = pool2d_shape(args, x.shape, input, windows, output);

  const Array<float> y = args.output("out", with_map_size(x.shape, output));
  daf::avg_pool2d(shape, count_include_pad, divisor, x.data, y.data);
}

void avg_pool2d_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Extent input = extent(args, "input_size", kAxes, 1, 1);
  const Windows windows = read_windows(args, false);
  const bool count_include_pad = args.boolean("count_include_pad");
  const int64_t divisor = args.integer("divisor");
  const Extent output = map_size(args, grad);
  const Pool2d shape = pool2d_shape(args, grad.shape, input, windows, output);
  require_pooled(args, input, windows, output);

  const Array<float> grad_x = args.output("out", with_map_size(grad.shape, input));
  daf::avg_pool2d_backward(shape, count_include_pad, divisor, grad.data, grad_x.data);
}

void adaptive_avg_pool2d(Arguments& args) {
  const Floats x = args.floats("x");
  const Extent output = extent(args, "output_size", kAxes, 1, 1);
  const Extent input = map_size(args, x);
  args.require(input.h >= 1 && input.w >= 1, "x has shape ", x.shape, ", an empty map");

  const Array<float> y = args.output("out", with_map_size(x.shape, output));
  daf::adaptive_avg_pool2d(x.shape.product(0, x.rank() - 2), input.h, input.w, output.h, output.w,
                           x.data, y.data);
}

void adaptive_avg_pool2d_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Extent input = extent(args, "input_size", kAxes, 1, 1);
  const Extent output = map_size(args, grad);
  args.require(output.h >= 1 && output.w >= 1, "grad has shape ", grad.shape, ", an empty map");

  const Array<float> grad_x = args.output("out", with_map_size(grad.shape, input));
  daf::adaptive_avg_pool2d_backward(grad.shape.product(0, grad.rank() - 2), input.h, input.w,
                                    output.h, output.w, grad.data, grad_x.data);
}

}  // namespace daf::ops
