#include <algorithm>

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {
namespace {

// Of the log-probability of the target `t` of sample i.
float target_grad(const NllLoss& shape, int64_t i, const float* grad_loss, int64_t t,
                  const float* weight, const float* total_weight) {
  float grad = shape.reduction == Reduction::kNone ? -grad_loss[i] : -grad_loss[0];
  if (shape.reduction == Reduction::kMean) grad /= *total_weight;
  return weight != nullptr ? grad * weight[t] : grad;
}

}  // namespace

bool nll_loss(const NllLoss& shape, const float* log_p, const int64_t* target, const float* weight,
              float* loss, float* total_weight) {
  const bool reduces = shape.reduction != Reduction::kNone;
  double loss_sum = 0, weight_sum = 0;
  for (int64_t i = 0; i < shape.n * shape.spatial; ++i) {
    const int64_t t = target[i];
    if (t == shape.ignore_index) {
      if (!reduces) loss[i] = 0;
      continue;
    }
    if (t < 0 || t >= shape.c) return false;
    const int64_t image = i / shape.spatial, place = i % shape.spatial;
    const float w = weight != nullptr ? weight[t] : 1.0f;
    const float value = -log_p[(image * shape.c + t) * shape.spatial + place] * w;
    if (!reduces) loss[i] = value;
    loss_sum += value;
    weight_sum += w;
  }
  *total_weight = reduces ? static_cast<float>(weight_sum) : 0.0f;
  if (shape.reduction == Reduction::kSum) *loss = static_cast<float>(loss_sum);
  // Nothing counted gives 0 / 0: NaN, as in PyTorch.
  if (shape.reduction == Reduction::kMean) *loss = static_cast<float>(loss_sum / weight_sum);
  return true;
}

void nll_loss_backward(const NllLoss& shape, const float* grad_loss, const int64_t* target,
                       const float* weight, const float* total_weight, float* grad_log_p) {
  std::fill(grad_log_p, grad_log_p + shape.n * shape.c * shape.spatial, 0.0f);
  for (int64_t i = 0; i < shape.n * shape.spatial; ++i) {
    const int64_t t = target[i];
    if (t == shape.ignore_index || t < 0 || t >= shape.c) continue;
    const int64_t image = i / shape.spatial, place = i % shape.spatial;
    grad_log_p[(image * shape.c + t) * shape.spatial + place] =
        target_grad(shape, i, grad_loss, t, weight, total_weight);
  }
}

}  // namespace daf::DAF_ISA
