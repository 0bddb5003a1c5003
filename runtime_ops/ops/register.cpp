#include "runtime_ops/ops/register.h"

#include <executorch/runtime/kernel/operator_registry.h>

#include "runtime_ops/ops/operators.h"

namespace daf {
namespace {

using executorch::runtime::EValue;
using executorch::runtime::Kernel;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::Span;

// ExecuTorch calls a plain function without telling it the operator: one for each.
#define DAF_OPERATOR(name, overload)                                                      \
  Kernel("daf::" #name overload, [](KernelRuntimeContext& context, Span<EValue*> stack) { \
    ops::call("daf::" #name, ops::name, context, stack);                                  \
  })
#define FUNCTIONAL(name) DAF_OPERATOR(name, ".out")
#define IN_PLACE(name) DAF_OPERATOR(name, "")

const Kernel kOperators[] = {
    FUNCTIONAL(gemm),
    FUNCTIONAL(gemm_add),
    FUNCTIONAL(gemm_activation),
    FUNCTIONAL(batch_gemm),
    FUNCTIONAL(convolution),
    FUNCTIONAL(convolution_input_grad),
    FUNCTIONAL(convolution_weight_grad),
    FUNCTIONAL(batch_norm_train),
    FUNCTIONAL(batch_norm_activation_train),
    FUNCTIONAL(batch_norm_eval),
    FUNCTIONAL(batch_norm_activation_eval),
    FUNCTIONAL(batch_norm_backward),
    FUNCTIONAL(batch_norm_activation_backward),
    FUNCTIONAL(layer_norm),
    FUNCTIONAL(layer_norm_backward),
    FUNCTIONAL(group_norm),
    FUNCTIONAL(group_norm_backward),
    FUNCTIONAL(arithmetic),
    FUNCTIONAL(arithmetic_scalar),
    FUNCTIONAL(add_activation),
    FUNCTIONAL(permute),
    FUNCTIONAL(expand),
    FUNCTIONAL(activation),
    FUNCTIONAL(activation_backward),
    FUNCTIONAL(softmax),
    FUNCTIONAL(softmax_backward),
    FUNCTIONAL(masked_softmax),
    FUNCTIONAL(nll_loss),
    FUNCTIONAL(nll_loss_backward),
    FUNCTIONAL(cross_entropy),
    FUNCTIONAL(max_pool2d),
    FUNCTIONAL(max_pool2d_backward),
    FUNCTIONAL(avg_pool2d),
    FUNCTIONAL(avg_pool2d_backward),
    FUNCTIONAL(adaptive_avg_pool2d),
    FUNCTIONAL(adaptive_avg_pool2d_backward),
    FUNCTIONAL(embedding),
    FUNCTIONAL(embedding_backward),
    FUNCTIONAL(dropout),
    FUNCTIONAL(sum_axes),
    FUNCTIONAL(gather_channels),
    FUNCTIONAL(activation_derivative),
    FUNCTIONAL(activation_with_mask),
    FUNCTIONAL(masked_gradient),
    FUNCTIONAL(stash),
    FUNCTIONAL(fetch),
    FUNCTIONAL(stored_gemm),
    FUNCTIONAL(stored_batch_gemm),
    FUNCTIONAL(stored_convolution_weight_grad),
    FUNCTIONAL(stored_batch_norm_backward),
    FUNCTIONAL(stored_layer_norm_backward),
    FUNCTIONAL(stored_activation_backward),
    FUNCTIONAL(stored_softmax_backward),
    IN_PLACE(sgd_),
    IN_PLACE(sgd_momentum_),
    IN_PLACE(adamw_),
    IN_PLACE(sgd_channels_),
    IN_PLACE(sgd_momentum_channels_),
    IN_PLACE(adamw_channels_),
};

}  // namespace

void register_ops() {
  static const auto registered = executorch::runtime::register_kernels(
      Span<const Kernel>(kOperators, sizeof kOperators / sizeof kOperators[0]));
  (void)registered;  // always Ok: ExecuTorch aborts on a name that is taken
}

}  // namespace daf
