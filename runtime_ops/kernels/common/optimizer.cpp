// The single-tensor CPU formulas of torch.optim, fused into one pass.
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {
namespace {

constexpr int64_t kCost = 4;  // of an element, in additions

// update(i, n) for vectors of n elements, together all of [0, count).
template <class Update>
void for_each_vector(int64_t count, Update update) {
  for_each_range(count, kCost, [=](int64_t first, int64_t last) {
    int64_t i = first;
    for (; i + kWidth <= last; i += kWidth)
      update(i, [](const float* p) { return load(p); }, store);
    if (i == last) return;
    const int64_t n = last - i;
    update(
        i, [n](const float* p) { return load_part(p, n); },
        [n](float* p, Vec v) { store_part(p, v, n); });
  });
}

}  // namespace

void sgd(const Sgd& options, int64_t n, const float* grad, float* weight, float* momentum_buffer) {
  const Sgd o = options;  // a copy: what is stored through `weight` cannot change it
  const float grad_share = 1.0f - o.dampening;
  const bool has_buffer = momentum_buffer != nullptr && o.momentum != 0.0f;
  for_each_vector(n, [=](int64_t i, auto read, auto write) {
    const Vec w = read(weight + i);
    Vec step = read(grad + i);
    if (o.weight_decay != 0.0f) step += o.weight_decay * w;
    if (has_buffer) {
      const Vec buffer =
          o.step == 0 ? step : read(momentum_buffer + i) * o.momentum + grad_share * step;
      write(momentum_buffer + i, buffer);
      step = o.nesterov ? step + o.momentum * buffer : buffer;
    }
    write(weight + i, w - o.lr * step);
  });
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
  for_each_vector(n, [=](int64_t i, auto read, auto write) {
    const Vec g = read(grad + i), old = read(exp_avg + i), difference = g - old;
    // torch.lerp: from the nearer end.
    const Vec average =
        grad_share1 < 0.5f ? old + grad_share1 * difference : g - difference * (1.0f - grad_share1);
    const Vec square = read(exp_avg_sq + i) * beta2 + grad_share2 * g * g;
    const Vec denominator = sqrt(square) / correction2_sqrt + eps;
    write(exp_avg + i, average);
    write(exp_avg_sq + i, square);
    write(weight + i, read(weight + i) * decay - step_size * average / denominator);
  });
}

}  // namespace daf::DAF_ISA
