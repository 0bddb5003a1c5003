#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/strides.h"

namespace daf::ops {
void permute(Arguments& args) {
  const Floats x = args.floats("x");
  const auto axes = args.integers("axes");
  args.require(static_cast<int64_t>(axes.size()) == x.rank(), "there are ", axes.size(),
               " axes, x has shape ", x.shape);
  const Strides all = contiguous_strides(x.shape);
  Strides strides;
  Shape shape;
  uint32_t seen = 0;
  for (int64_t axis : axes) {
    args.require(axis >= 0 && axis < x.rank() && ((seen >> axis) & 1) == 0, "axis ", axis,
                 " is twice in axes, or x of shape ", x.shape, " does not have it");
    seen |= 1u << axis;
    strides.of[shape.rank()] = all.of[axis];
    shape.append(x.size(axis));
  }
  const Array<float> y = args.output("out", shape);
  if (y.n_elements() == 0) return;
  daf::strided_copy(static_cast<int>(x.rank()), shape.data(), strides.of, x.data, y.data);
}

void expand(Arguments& args) {
  const Floats x = args.floats("x");
  const auto size = args.integers("size");
  const int64_t rank = static_cast<int64_t>(size.size());
  args.require(rank >= x.rank() && rank <= Shape::kMaxRank, "size has ", rank,
               " axes, x has shape ", x.shape);
  Shape shape;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool is_own = size[axis] == -1 && axis >= rank - x.rank();
    shape.append(is_own ? x.size(axis - (rank - x.rank())) : size[axis]);
  }
  args.require(broadcasts_to(x.shape, shape), "x has shape ", x.shape,
               ", which cannot be repeated to ", shape);
  const Array<float> y = args.output("out", shape);
  if (y.n_elements() == 0) return;
  daf::strided_copy(static_cast<int>(rank), shape.data(), broadcast_strides(x.shape, shape).of,
                    x.data, y.data);
}

}  // namespace daf::ops
