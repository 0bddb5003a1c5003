#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/optimizer_settings.h"

namespace daf::ops {
namespace {

// Where in the parameter and its state the gradient belongs: all of it, or a block of rows.
int64_t first_element(Arguments& args, const Array<float>& self, const Floats& grad) {
  const int64_t first_row = args.integer("first_row");
  if (grad.shape == self.shape && first_row == 0) return 0;
  args.require(self.rank() >= 1 && grad.rank() == self.rank() &&
                   grad.shape.slice(1, grad.rank()) == self.shape.slice(1, self.rank()),
               grad.name, " has shape ", grad.shape, ", expected rows of ", self.shape);
  args.require(first_row >= 0 && first_row <= self.size(0) - grad.size(0), "row ", first_row,
               " and ", grad.size(0), " rows are not within ", self.shape);
  return first_row * self.shape.product(1, self.rank());
}

}  // namespace

void sgd_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Floats grad = args.floats("grad");
  Sgd options{};
  options.lr = read_lr(args);
  options.weight_decay = read_float(args, "weight_decay");
  const int64_t first = first_element(args, self, grad);
  args.returns(self);
  sgd(options, grad.n_elements(), grad.data, self.data + first, nullptr);
}

void sgd_momentum_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> momentum_buffer = args.updated("momentum_buffer");
  const Floats grad = args.floats("grad");
  const Sgd options = read_sgd_momentum(args);
  const int64_t first = first_element(args, self, grad);
  args.returns(self);
  args.require_shape(momentum_buffer, self.shape);
  sgd(options, grad.n_elements(), grad.data, self.data + first, momentum_buffer.data + first);
}

void adamw_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> exp_avg = args.updated("exp_avg");
  const Array<float> exp_avg_sq = args.updated("exp_avg_sq");
  const Floats grad = args.floats("grad");
  const AdamW options = read_adamw(args);
  const int64_t first = first_element(args, self, grad);
  args.returns(self);
  args.require_shape(exp_avg, self.shape);
  args.require_shape(exp_avg_sq, self.shape);
  adamw(options, grad.n_elements(), grad.data, self.data + first, exp_avg.data + first,
        exp_avg_sq.data + first);
}

}  // namespace daf::ops
