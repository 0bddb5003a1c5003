// The adapters, one for each operator of exporter/ops.py: check, resize, call the kernel.
#pragma once

#include "runtime_ops/ops/arguments.h"

namespace daf::ops {

void gemm(Arguments& args);
void gemm_add(Arguments& args);
void gemm_activation(Arguments& args);
void batch_gemm(Arguments& args);

void convolution(Arguments& args);
void convolution_input_grad(Arguments& args);
void convolution_weight_grad(Arguments& args);

void batch_norm_train(Arguments& args);
void batch_norm_activation_train(Arguments& args);
void batch_norm_eval(Arguments& args);
void batch_norm_activation_eval(Arguments& args);
void batch_norm_backward(Arguments& args);
void batch_norm_activation_backward(Arguments& args);
void layer_norm(Arguments& args);
void layer_norm_backward(Arguments& args);
void group_norm(Arguments& args);
void group_norm_backward(Arguments& args);

void arithmetic(Arguments& args);
void arithmetic_scalar(Arguments& args);
void add_activation(Arguments& args);
void permute(Arguments& args);
void expand(Arguments& args);

void activation(Arguments& args);
void activation_backward(Arguments& args);
void softmax(Arguments& args);
void softmax_backward(Arguments& args);
void masked_softmax(Arguments& args);
void nll_loss(Arguments& args);
void nll_loss_backward(Arguments& args);
void cross_entropy(Arguments& args);

void max_pool2d(Arguments& args);
void max_pool2d_backward(Arguments& args);
void avg_pool2d(Arguments& args);
void avg_pool2d_backward(Arguments& args);
void adaptive_avg_pool2d(Arguments& args);
void adaptive_avg_pool2d_backward(Arguments& args);

void embedding(Arguments& args);
void embedding_backward(Arguments& args);
void dropout(Arguments& args);
void sum_axes(Arguments& args);
void gather_channels(Arguments& args);

void activation_derivative(Arguments& args);
void activation_with_mask(Arguments& args);
void masked_gradient(Arguments& args);
void stash(Arguments& args);
void fetch(Arguments& args);
void stored_gemm(Arguments& args);
void stored_batch_gemm(Arguments& args);
void stored_convolution_weight_grad(Arguments& args);
void stored_batch_norm_backward(Arguments& args);
void stored_layer_norm_backward(Arguments& args);
void stored_activation_backward(Arguments& args);
void stored_softmax_backward(Arguments& args);

void sgd_(Arguments& args);
void sgd_momentum_(Arguments& args);
void adamw_(Arguments& args);
void sgd_channels_(Arguments& args);
void sgd_momentum_channels_(Arguments& args);
void adamw_channels_(Arguments& args);

}  // namespace daf::ops
