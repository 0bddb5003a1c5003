#include <algorithm>
#include <cmath>

#include "runtime_ops/kernels/common/parallel.h"
#include "runtime_ops/kernels/common/softmax_row.h"

namespace daf::DAF_ISA {
namespace {

// out = the probabilities of x times `grad`; returns the log-probability of x[t].
float probabilities(int64_t n, const float* x, int64_t t, float grad, float* out) {
  const float largest = max_of_row(n, x), of_target = x[t];
  const double total = map_and_sum(n, x, out, [=](Vec v) { return math::exp(v - largest); });
  const float scale = static_cast<float>(grad / total);
  map(n, out, out, [=](Vec p) { return p * scale; });
  return of_target - largest - static_cast<float>(std::log(total));
}

}  // namespace

bool cross_entropy(const NllLoss& shape, const float* x, const int64_t* target, const float* weight,
                   float* loss, float* grad_x) {
  const int64_t n = shape.n, c = shape.c;
  const auto counts = [&](int64_t i) { return target[i] != shape.ignore_index; };
  const auto weight_of = [&](int64_t i) { return weight != nullptr ? weight[target[i]] : 1.0f; };
  double weight_sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!counts(i)) continue;
    if (target[i] < 0 || target[i] >= c) return false;
    weight_sum += weight_of(i);
  }
  const bool is_mean = shape.reduction == Reduction::kMean;
  const float divisor = is_mean ? static_cast<float>(weight_sum) : 1.0f;

  constexpr int64_t kCost = 8;  // of an element, in additions
  for_each_range(n, kCost * c, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      float* out = grad_x + i * c;
      if (counts(i)) {
        // At the target until the losses are summed, in their order.
        const float grad = weight_of(i) / divisor;
        out[target[i]] = probabilities(c, x + i * c, target[i], grad, out);
      } else {
        std::fill_n(out, c, 0.0f);
      }
    }
  });
  double loss_sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!counts(i)) continue;
    float& place = grad_x[i * c + target[i]];
    const double log_p = place;
    loss_sum -= log_p * weight_of(i);
    place = static_cast<float>(std::expm1(log_p) * (weight_of(i) / divisor));
  }
  // Nothing counted gives 0 / 0: NaN, as in PyTorch.
  *loss = static_cast<float>(is_mean ? loss_sum / weight_sum : loss_sum);
  return true;
}

}  // namespace daf::DAF_ISA
