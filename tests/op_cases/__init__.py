"""Calls of every functional `daf::` operator but dropout, each with what PyTorch makes of the same arguments."""

from __future__ import annotations

from op_cases.case import Case, rand
from op_cases.elementwise import (
    activation_cases,
    add_activation_cases,
    arithmetic_cases,
    copy_cases,
    masked_softmax_cases,
    softmax_cases,
)
from op_cases.losses_and_pools import (
    adaptive_avg_pool2d_cases,
    embedding_cases,
    gather_channels_cases,
    nll_loss_cases,
    pool_cases,
    sum_axes_cases,
)
from op_cases.norms import batch_norm_activation_cases, batch_norm_cases, group_norm_cases, layer_norm_cases
from op_cases.products import (
    batch_gemm_cases,
    convolution_cases,
    gemm_activation_cases,
    gemm_add_cases,
    gemm_cases,
    transposed_convolution_cases,
)

__all__ = ["CASES", "Case", "rand"]

CASES = [
    *gemm_cases(),
    *gemm_add_cases(),
    *gemm_activation_cases(),
    *batch_gemm_cases(),
    *convolution_cases(),
    *transposed_convolution_cases(),
    *batch_norm_cases(),
    *batch_norm_activation_cases(),
    *layer_norm_cases(),
    *group_norm_cases(),
    *arithmetic_cases(),
    *add_activation_cases(),
    *copy_cases(),
    *activation_cases(),
    *softmax_cases(),
    *masked_softmax_cases(),
    *nll_loss_cases(),
    *pool_cases(),
    *adaptive_avg_pool2d_cases(),
    *embedding_cases(),
    *gather_channels_cases(),
    *sum_axes_cases(),
]
