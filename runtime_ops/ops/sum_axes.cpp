#include "runtime_ops/ops/operators.h"

namespace daf::ops {

void sum_axes(Arguments& args) {
  const Floats x = args.floats("x");
  const auto axes = args.integers("axes");
  const bool keepdim = args.boolean("keepdim");
  const bool mean = args.boolean("mean");
  args.require(!axes.empty(), "axes is empty");

  uint32_t axis_mask = 0;
  for (int64_t axis : axes) {
    args.require(axis >= 0 && axis < x.rank(), "axis is ", axis, ", x has shape ", x.shape);
    axis_mask |= 1u << axis;
  }
  Shape shape;
  int64_t n_summed = 1;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const bool summed = (axis_mask >> axis) & 1;
    if (summed) n_summed *= x.size(axis);
    if (!summed || keepdim) shape.append(summed ? 1 : x.size(axis));
  }

  const Array<float> y = args.output("out", shape);
  const float scale = mean ? 1.0f / static_cast<float>(n_summed) : 1.0f;
  daf::sum_axes(static_cast<int>(x.rank()), x.shape.data(), axis_mask, scale, x.data, y.data);
}

}  // namespace daf::ops
