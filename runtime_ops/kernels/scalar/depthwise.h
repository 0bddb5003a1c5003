// Direct convolution where every group has one input channel (groups == c_in).
#pragma once

#include "runtime_ops/kernels/kernels.h"

namespace daf {

void depthwise_conv2d(const Conv2d& shape, const float* x, const float* weight, const float* bias,
                      float* y);
void depthwise_conv2d_input_grad(const Conv2d& shape, const float* grad_y, const float* weight,
                                 const float* bias, float* grad_x);
void depthwise_conv2d_weight_grad(const Conv2d& shape, const float* grad_y, const float* x,
                                  float* grad_weight);

}  // namespace daf
