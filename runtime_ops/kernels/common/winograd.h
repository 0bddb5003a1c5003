// 3 x 3 convolution with stride 1 in a third to a half of the time of the matrix products over all
// taps (conv2d.cpp), where maps and channels are large enough.
#pragma once

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

enum class Pass { kForward, kInputGrad, kWeightGrad };
bool winograd_pays(const Conv2d& shape, Pass pass);

void winograd_conv2d(const Conv2d& shape, const float* x, const float* weight, const float* bias,
                     float* y, Scratch& scratch);
void winograd_conv2d_input_grad(const Conv2d& shape, const float* grad_y, const float* weight,
                                const float* bias, float* grad_x, Scratch& scratch);
void winograd_conv2d_weight_grad(const Conv2d& shape, const float* grad_y, const float* x,
                                 bool accumulate, float* grad_weight, Scratch& scratch);

}  // namespace daf::DAF_ISA
