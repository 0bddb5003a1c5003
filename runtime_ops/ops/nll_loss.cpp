#include "runtime_ops/ops/operators.h"

namespace daf::ops {
namespace {

// log_p is [c] with target [], or [n, c, ...] with target [n, ...].
NllLoss read_shape(Arguments& args, const Shape& log_p, const Indices& target,
                   const Floats& weight) {
  const int64_t reduction = args.integer("reduction");
  const int64_t ignore_index = args.integer("ignore_index");
  args.require(reduction >= 0 && reduction <= 2, "reduction is ", reduction, ", expected 0 to 2");
  args.require(log_p.rank() >= 1, "log_p has no axes");
  const bool has_batch = log_p.rank() > 1;
  NllLoss shape;
  shape.n = has_batch ? log_p[0] : 1;
  shape.c = log_p[has_batch ? 1 : 0];
  shape.spatial = has_batch ? log_p.product(2, log_p.rank()) : 1;
  shape.ignore_index = ignore_index;
  shape.reduction = static_cast<Reduction>(reduction);

  Shape expected;
  for (int64_t axis = 0; has_batch && axis < log_p.rank(); ++axis) {
    if (axis != 1) expected.append(log_p[axis]);
  }
  args.require_shape(target, expected);
  args.require_shape(weight, {shape.c});
  return shape;
}

void require_targets(const Arguments& args, const NllLoss& shape, const Indices& target) {
  for (int64_t i = 0; i < target.n_elements(); ++i) {
    const int64_t value = target.data[i];
    args.require((value >= 0 && value < shape.c) || value == shape.ignore_index, "target ", value,
                 " is outside [0, ", shape.c, ")");
  }
}

}  // namespace

void nll_loss(Arguments& args) {
  const Floats log_p = args.floats("log_p");
  const Indices target = args.indices("target");
  const Floats weight = args.optional_floats("weight");
  const NllLoss shape = read_shape(args, log_p.shape, target, weight);

  const Array<float> loss =
      args.output("out0", shape.reduction == Reduction::kNone ? target.shape : Shape());
  const Array<float> total_weight = args.output("out1", {});
  if (!daf::nll_loss(shape, log_p.data, target.data, weight.data, loss.data, total_weight.data)) {
    require_targets(args, shape, target);  // names the target
  }
}

void nll_loss_backward(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Floats log_p = args.floats("log_p");
  const Indices target = args.indices("target");
  const Floats weight = args.optional_floats("weight");
  const Floats total_weight = args.floats("total_weight");
  const NllLoss shape = read_shape(args, log_p.shape, target, weight);
  args.require_shape(grad, shape.reduction == Reduction::kNone ? target.shape : Shape());
  args.require_shape(total_weight, {});
  require_targets(args, shape, target);  // the kernel writes where they point to

  const Array<float> grad_log_p = args.output("out", log_p.shape);
  daf::nll_loss_backward(shape, grad.data, target.data, weight.data, total_weight.data,
                         grad_log_p.data);
}

void cross_entropy(Arguments& args) {
  const Floats x = args.floats("x");
  const Indices target = args.indices("target");
  const Floats weight = args.optional_floats("weight");
  args.require_rank(x, 2, 2);
  const NllLoss shape = read_shape(args, x.shape, target, weight);
  args.require(shape.reduction != Reduction::kNone, "reduction is 0, expected 1 or 2");

  const Array<float> loss = args.output("out0", {});
  const Array<float> grad_x = args.output("out1", x.shape);
  if (!daf::cross_entropy(shape, x.data, target.data, weight.data, loss.data, grad_x.data)) {
    require_targets(args, shape, target);  // names the target
  }
}

}  // namespace daf::ops
