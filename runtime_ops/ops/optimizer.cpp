#include "runtime_ops/ops/clock.h"
#include "runtime_ops/ops/operators.h"

namespace daf::ops {
namespace {

float read_lr(Arguments& args) {
  const Floats lr = args.floats("lr");
  args.require_shape(lr, {1});
  return lr.data[0];
}

float read_float(Arguments& args, const char* name) {
  return static_cast<float>(args.number(name));
}

}  // namespace

void sgd_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Floats grad = args.floats("grad");
  Sgd options{};
  options.lr = read_lr(args);
  options.weight_decay = read_float(args, "weight_decay");
  args.returns(self);
  args.require_shape(grad, self.shape);
  sgd(options, self.n_elements(), grad.data, self.data, nullptr);
}

void sgd_momentum_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> momentum_buffer = args.updated("momentum_buffer");
  const Floats grad = args.floats("grad");
  Sgd options{};
  options.lr = read_lr(args);
  options.step = read_clock(args).step;
  options.momentum = read_float(args, "momentum");
  options.dampening = read_float(args, "dampening");
  options.weight_decay = read_float(args, "weight_decay");
  options.nesterov = args.boolean("nesterov");
  args.returns(self);
  args.require_shape(momentum_buffer, self.shape);
  args.require_shape(grad, self.shape);
  sgd(options, self.n_elements(), grad.data, self.data, momentum_buffer.data);
}

void adamw_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> exp_avg = args.updated("exp_avg");
  const Array<float> exp_avg_sq = args.updated("exp_avg_sq");
  const Floats grad = args.floats("grad");
  AdamW options{};
  options.lr = read_lr(args);
  options.step = read_clock(args).step;
  options.beta1 = args.number("beta1");
  options.beta2 = args.number("beta2");
  options.eps = read_float(args, "eps");
  options.weight_decay = read_float(args, "weight_decay");
  args.returns(self);
  args.require_shape(exp_avg, self.shape);
  args.require_shape(exp_avg_sq, self.shape);
  args.require_shape(grad, self.shape);
  adamw(options, self.n_elements(), grad.data, self.data, exp_avg.data, exp_avg_sq.data);
}

}  // namespace daf::ops
