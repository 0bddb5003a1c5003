#include <algorithm>

#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/spatial.h"
#include "runtime_ops/ops/stored.h"

namespace daf::ops {
namespace {

struct Windows {
  Extent stride, padding, dilation;
  int64_t groups;
};

Windows read_windows(Arguments& args, int64_t n_axes) {
  Windows windows;
  windows.stride = extent(args, "stride", n_axes, 1, 1);
  windows.padding = extent(args, "padding", n_axes, 0, 0);
  windows.dilation = extent(args, "dilation", n_axes, 1, 1);
  windows.groups = args.integer("groups");
  args.require(windows.groups >= 1, "groups is ", windows.groups, ", expected at least 1");
  return windows;
}

template <class T>
Extent map_size(const Array<T>& map) {
  return map.rank() == 3 ? Extent{1, map.size(2)} : Extent{map.size(2), map.size(3)};
}

int64_t n_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  return size < 1 || kernel < 1 || room < 0 ? 0 : room / stride + 1;
}

Extent n_windows(Extent size, Extent kernel, const Windows& windows) {
  const auto& [stride, padding, dilation, groups] = windows;
  return Extent{n_windows(size.h, kernel.h, stride.h, padding.h, dilation.h),
                n_windows(size.w, kernel.w, stride.w, padding.w, dilation.w)};
}

// The convolution x[n, c_in, input], weight[c_out, c_in / groups, kernel] -> y[n, c_out, output].
// Where it is the gradient of one, or a transposed one, `output` may be less than fits.
Conv2d conv2d_shape(const Arguments& args, int64_t n, int64_t c_in, Extent input, int64_t c_out,
                    Extent kernel, const Windows& windows, Extent output) {
  const auto& [stride, padding, dilation, groups] = windows;
  args.require(c_in >= 1 && c_out >= 1 && c_in % groups == 0 && c_out % groups == 0, c_in, " and ",
               c_out, " channels are not divided by ", groups, " groups");
  const Extent fits = n_windows(input, kernel, windows);
  args.require(fits.h >= 1 && fits.w >= 1, "no window of ", kernel.h, "x", kernel.w,
               " fits into a map of ", input.h, "x", input.w);
  args.require(output.h >= 1 && output.h <= fits.h && output.w >= 1 && output.w <= fits.w,
               "a map of ", input.h, "x", input.w, " has ", fits.h, "x", fits.w, " windows, not ",
               output.h, "x", output.w);
  return Conv2d{n,          c_in,     input.h,  input.w,   c_out,     kernel.h,
                kernel.w,   stride.h, stride.w, padding.h, padding.w, dilation.h,
                dilation.w, groups,   output.h, output.w};
}

// [first, second, spatial axes as `extent` has them]
Shape map_shape(int64_t rank, int64_t first, int64_t second, Extent extent) {
  return rank == 3 ? Shape{first, second, extent.w} : Shape{first, second, extent.h, extent.w};
}

}  // namespace

void convolution(Arguments& args) {
  const Floats x = args.floats("x");
  const Floats weight = args.floats("weight");
  const Floats bias = args.optional_floats("bias");
  args.require_rank(x, 3, 4);
  args.require_rank(weight, x.rank(), x.rank());
  const Windows windows = read_windows(args, x.rank() - 2);

  const int64_t n = x.size(0), c_in = x.size(1), c_out = weight.size(0);
  const Extent input = map_size(x), kernel = map_size(weight);
  const Extent output = n_windows(input, kernel, windows);
  const Conv2d shape = conv2d_shape(args, n, c_in, input, c_out, kernel, windows, output);
  args.require_shape(weight, map_shape(x.rank(), c_out, c_in / windows.groups, kernel));
  args.require_shape(bias, {c_out});

  const Array<float> y = args.output("out", map_shape(x.rank(), n, c_out, output));
  if (n == 0) return;
  conv2d(shape, x.data, weight.data, bias.data, y.data, args.scratch());
}

void convolution_input_grad(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats weight = args.floats("weight");
  const Floats bias = args.optional_floats("bias");
  args.require_rank(grad, 3, 4);
  args.require_rank(weight, grad.rank(), grad.rank());
  const Extent input = extent(args, "input_size", grad.rank() - 2, 1, 1);
  const Windows windows = read_windows(args, grad.rank() - 2);

  const int64_t n = grad.size(0), c_out = grad.size(1);
  const Extent kernel = map_size(weight);
  args.require(windows.groups <= c_out, c_out, " channels cannot make ", windows.groups, " groups");
  const int64_t c_in = weight.size(1) * windows.groups;
  const Conv2d shape = conv2d_shape(args, n, c_in, input, c_out, kernel, windows, map_size(grad));
  args.require_shape(weight, map_shape(grad.rank(), c_out, weight.size(1), kernel));
  args.require_shape(bias, {c_in});

  const Array<float> grad_x = args.output("out", map_shape(grad.rank(), n, c_in, input));
  if (n == 0) return;
  conv2d_input_grad(shape, grad.data, weight.data, bias.data, grad_x.data, args.scratch());
}

void convolution_weight_grad(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats x = args.floats("x");
  args.require_rank(grad, 3, 4);
  args.require_rank(x, grad.rank(), grad.rank());
  const Extent kernel = extent(args, "kernel_size", grad.rank() - 2, 1, 1);
  const Windows windows = read_windows(args, grad.rank() - 2);

  const int64_t n = grad.size(0), c_out = grad.size(1), c_in = x.size(1);
  const Conv2d shape =
      conv2d_shape(args, n, c_in, map_size(x), c_out, kernel, windows, map_size(grad));
  args.require(x.size(0) == n, "grad and x have batches of ", n, " and ", x.size(0));

  const Array<float> grad_weight =
      args.output("out", map_shape(grad.rank(), c_out, c_in / windows.groups, kernel));
  if (n == 0) {
    std::fill_n(grad_weight.data, grad_weight.n_elements(), 0.0f);
    return;
  }
  conv2d_weight_grad(shape, grad.data, x.data, false, grad_weight.data, args.scratch());
}

void stored_convolution_weight_grad(Arguments& args) {
  const Floats grad = args.floats("grad");
  StoredValue x(args);
  args.require_rank(grad, 3, 4);
  args.require(x.shape().rank() == grad.rank(), "x has shape ", x.shape(), ", grad ", grad.shape);
  const Extent kernel = extent(args, "kernel_size", grad.rank() - 2, 1, 1);
  const Windows windows = read_windows(args, grad.rank() - 2);

  const int64_t n = grad.size(0), c_out = grad.size(1), c_in = x.shape()[1];
  const Extent input =
      grad.rank() == 3 ? Extent{1, x.shape()[2]} : Extent{x.shape()[2], x.shape()[3]};
  Conv2d shape = conv2d_shape(args, n, c_in, input, c_out, kernel, windows, map_size(grad));
  args.require(x.n_samples() == n, "grad and x have batches of ", n, " and ", x.n_samples());

  const Array<float> grad_weight =
      args.output("out", map_shape(grad.rank(), c_out, c_in / windows.groups, kernel));
  const int64_t grad_sample = grad.shape.product(1, grad.rank());
  ReusedScratch scratch(args.scratch());
  x.for_each_chunk([&](int64_t first, int64_t count, const float* part) {
    shape.n = count;
    scratch.reuse();
    conv2d_weight_grad(shape, grad.data + first * grad_sample, part, first > 0, grad_weight.data,
                       scratch);
  });
  x.weigh([&] {
    const int64_t n_columns = c_in / windows.groups * kernel.h * kernel.w;
    return relative(static_cast<double>(n_columns) * square_norm(grad), square_norm(grad_weight));
  });
  x.release();
}

}  // namespace daf::ops
