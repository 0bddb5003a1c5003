// Depthwise convolution of maps too small to fill vectors with their rows: a vector holds one place
// of several images, which share their filter. Works for all geometries of depthwise.h.
#pragma once

#include "runtime_ops/kernels/common/isa.h"

namespace daf::DAF_ISA {

// Whether the maps fit, and there are images enough.
bool is_small_depthwise(const Conv2d& shape);

void small_depthwise_conv2d(const Conv2d& shape, const float* x, const float* weight,
                            const float* bias, float* y, Scratch& scratch);
void small_depthwise_conv2d_input_grad(const Conv2d& shape, const float* grad_y,
                                       const float* weight, const float* bias, float* grad_x,
                                       Scratch& scratch);
void small_depthwise_conv2d_weight_grad(const Conv2d& shape, const float* grad_y, const float* x,
                                        float* grad_weight, Scratch& scratch);

}  // namespace daf::DAF_ISA
