// The single-tensor CPU formulas of torch.optim, fused into one pass.
#include <cmath>

#include "runtime_ops/kernels/kernels.h"

namespace daf {

void sgd(const Sgd& options, int64_t n, const float* grad, float* weight, float* momentum_buffer) {
  const Sgd o = options;  // a copy: what is stored through `weight` cannot change it
  const float grad_share = 1.0f - o.dampening;
  const bool has_buffer = momentum_buffer != nullptr && o.momentum != 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    float step = grad[i];
    if (o.weight_decay != 0.0f) step += o.weight_decay * weight[i];
    if (has_buffer) {
      const float buffer = o.step == 0 ? step : momentum_buffer[i] * o.momentum + grad_share * step;
      momentum_buffer[i] = buffer;
      step = o.nesterov ? step + o.momentum * buffer : buffer;
    }
    weight[i] -= o.lr * step;
  }
}

void adamw(const AdamW& options, int64_t n, const float* grad, float* weight, float* exp_avg,
           float* exp_avg_sq) {
  const double step = static_cast<double>(options.step + 1), lr = options.lr;
  const float decay = static_cast<float>(1.0 - lr * options.weight_decay);
  const float step_size = static_cast<float>(lr / (1.0 - std::pow(options.beta1, step)));
  const float correction2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(options.beta2, step)));
  const float beta2 = static_cast<float>(options.beta2);
  const float grad_share1 = static_cast<float>(1.0 - options.beta1);
  const float grad_share2 = static_cast<float>(1.0 - options.beta2);
  const float eps = options.eps;
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i], difference = g - exp_avg[i];
    // torch.lerp: from the nearer end.
    exp_avg[i] = grad_share1 < 0.5f ? exp_avg[i] + grad_share1 * difference
                                    : g - difference * (1.0f - grad_share1);
    exp_avg_sq[i] = exp_avg_sq[i] * beta2 + grad_share2 * g * g;
    const float denominator = std::sqrt(exp_avg_sq[i]) / correction2_sqrt + eps;
    weight[i] = weight[i] * decay - step_size * exp_avg[i] / denominator;
  }
}

}  // namespace daf
