// What the operators of an optimizer read in the same order: learning rate, clock, its numbers.
#pragma once

#include "runtime_ops/ops/clock.h"

namespace daf::ops {

inline float read_lr(Arguments& args) {
  const Floats lr = args.floats("lr");
  args.require_shape(lr, {1});
  return lr.data[0];
}

inline float read_float(Arguments& args, const char* name) {
  return static_cast<float>(args.number(name));
}

inline Sgd read_sgd_momentum(Arguments& args) {
  Sgd options{};
  options.lr = read_lr(args);
  options.step = read_clock(args).step;
  options.momentum = read_float(args, "momentum");
  options.dampening = read_float(args, "dampening");
  options.weight_decay = read_float(args, "weight_decay");
  options.nesterov = args.boolean("nesterov");
  return options;
}

inline AdamW read_adamw(Arguments& args) {
  AdamW options{};
  options.lr = read_lr(args);
  options.step = read_clock(args).step;
  options.beta1 = args.number("beta1");
  options.beta2 = args.number("beta2");
  options.eps = read_float(args, "eps");
  options.weight_decay = read_float(args, "weight_decay");
  return options;
}

}  // namespace daf::ops
