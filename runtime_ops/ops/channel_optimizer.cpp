// Optimizers that update the chosen channels of a weight and leave the others as they are. Each
// channel goes through the same kernel as a whole weight does, with the steps that it has trained.
#include "runtime_ops/ops/chosen_channels.h"
#include "runtime_ops/ops/clock.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/optimizer_settings.h"

namespace daf::ops {
namespace {

// Of all these operators: the weight, the tensors that say which channels, and the gradient.
struct Channels {
  Array<float> square_grad;
  Indices index;
  Floats grad;

  explicit Channels(Arguments& args)
      : square_grad(args.updated("square_grad")),
        index(args.indices("index")),
        grad(args.floats("grad")) {}

  // Takes axis, block and the result, checks all shapes (`states` are [chosen, weights of one]) and
  // calls update(which of the chosen, n, gradient, weight).
  template <class Update>
  void for_each(Arguments& args, const Array<float>& self,
                std::initializer_list<const Array<float>*> states, Update update) const {
    const int64_t axis = args.integer("axis");
    const int64_t block = args.integer("block");
    args.returns(self);
    const ChannelLayout layout(args, self.shape, axis, block);
    const ChannelIndex chosen(args, index, layout.n_channels);
    const int64_t n = layout.channel_elements();
    Shape grad_shape = self.shape.slice(0, axis);
    grad_shape.append(chosen.n_chosen * block);
    for (int64_t i = axis + 1; i < self.rank(); ++i) grad_shape.append(self.size(i));
    args.require_shape(grad, grad_shape);
    args.require_shape(square_grad, {chosen.n_chosen});
    for (const Array<float>* state : states) args.require_shape(*state, {chosen.n_chosen, n});

    const ChannelLayout grad_layout(args, grad.shape, axis, block);
    float* channel_grad = args.scratch().take<float>(static_cast<size_t>(n));
    float* channel_weight = args.scratch().take<float>(static_cast<size_t>(n));
    for (int64_t i = 0; i < chosen.n_chosen; ++i) {
      grad_layout.read(grad.data, i, channel_grad);
      layout.read(self.data, chosen.channel[i], channel_weight);
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += double{channel_grad[j]} * channel_grad[j];
      square_grad.data[i] += static_cast<float>(sum);
      update(i, n, channel_grad, channel_weight);
      layout.write(channel_weight, chosen.channel[i], self.data);
    }
  }

  // Steps that one of the chosen has trained before this one.
  int64_t age(const Arguments& args, int64_t which, int64_t step) const {
    const int64_t since = index.data[index.size(1) + which];
    args.require(since >= 0 && since <= step, "a channel was chosen at step ", since,
                 ", this is step ", step);
    return step - since;
  }
};

}  // namespace

void sgd_channels_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Channels channels(args);
  Sgd options{};
  options.lr = read_lr(args);
  options.weight_decay = read_float(args, "weight_decay");
  channels.for_each(args, self, {}, [&](int64_t, int64_t n, const float* grad, float* weight) {
    sgd(options, n, grad, weight, nullptr);
  });
}

void sgd_momentum_channels_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> momentum_buffer = args.updated("momentum_buffer");
  const Channels channels(args);
  Sgd options = read_sgd_momentum(args);
  const int64_t step = options.step;
  channels.for_each(args, self, {&momentum_buffer},
                    [&](int64_t which, int64_t n, const float* grad, float* weight) {
                      options.step = channels.age(args, which, step);
                      sgd(options, n, grad, weight, momentum_buffer.data + which * n);
                    });
}

void adamw_channels_(Arguments& args) {
  const Array<float> self = args.updated("self");
  const Array<float> exp_avg = args.updated("exp_avg");
  const Array<float> exp_avg_sq = args.updated("exp_avg_sq");
  const Channels channels(args);
  AdamW options = read_adamw(args);
  const int64_t step = options.step;
  channels.for_each(args, self, {&exp_avg, &exp_avg_sq},
                    [&](int64_t which, int64_t n, const float* grad, float* weight) {
                      options.step = channels.age(args, which, step);
                      adamw(options, n, grad, weight, exp_avg.data + which * n,
                            exp_avg_sq.data + which * n);
                    });
}

}  // namespace daf::ops
