// Direct convolution where every group has one input channel (groups == c_in).
#pragma once

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

void depthwise_conv2d(const Conv2d& shape, const float* x, const float* weight, const float* bias,
                      float* y, Scratch& scratch);
void depthwise_conv2d_input_grad(const Conv2d& shape, const float* grad_y, const float* weight,
                                 const float* bias, float* grad_x, Scratch& scratch);
void depthwise_conv2d_weight_grad(const Conv2d& shape, const float* grad_y, const float* x,
                                  float* grad_weight, Scratch& scratch);

}  // namespace daf::DAF_ISA
