"""The `daf::` operators that write to the activation store and read from it, as ops.py has the others.

A stored value is read by a recipe, evaluated for a few samples at a time (recipe.py). `source` are the tensors it
takes, `shape` is that of the whole value.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from daf.exporter.define_operator import defines
from daf.exporter.ops import batch_gemm, gemm


def mask_words(n_elements: int) -> int:
    return (n_elements + 31) // 32


@defines("(Tensor saved, str kind, float a, float b) -> Tensor")
def activation_derivative(saved: Tensor, kind: str, a: float, b: float) -> Tensor:
    """What activation_backward multiplies the gradient by."""
    return torch.empty_like(saved)


@defines("(Tensor x, str kind, float a, float b) -> (Tensor, Tensor)")
def activation_with_mask(x: Tensor, kind: str, a: float, b: float) -> tuple[Tensor, ...]:
    """(y, mask): bit i % 32 of word i / 32 says whether the gradient passes element i."""
    return torch.empty_like(x), x.new_empty([mask_words(x.numel())], dtype=torch.int32)


@defines("(Tensor grad, Tensor mask, float slope) -> Tensor")
def masked_gradient(grad: Tensor, mask: Tensor, slope: float) -> Tensor:
    """grad where the mask is set, slope * grad elsewhere."""
    return torch.empty_like(grad)


@defines("(Tensor x, int entry) -> Tensor")
def stash(x: Tensor, entry: int) -> Tensor:
    """A token that stands for the stored tensor: whoever reads it comes after this."""
    return x.new_empty([1], dtype=torch.uint8)


@defines("(Tensor[] source, str recipe, int[] shape) -> Tensor")
def fetch(source: Sequence[Tensor], recipe: str, shape: Sequence[int]) -> Tensor:
    return source[0].new_empty(list(shape), dtype=torch.float32)


@defines(
    "(Tensor other, Tensor[] source, str recipe, int[] shape, bool stored_is_a, bool transpose_a, bool transpose_b)"
    " -> Tensor"
)
def stored_gemm(
    other: Tensor,
    source: Sequence[Tensor],
    recipe: str,
    shape: Sequence[int],
    stored_is_a: bool,
    transpose_a: bool,
    transpose_b: bool,
) -> Tensor:
    """As gemm without bias; one of its operands is stored."""
    stored = other.new_empty(list(shape))
    a, b = (stored, other) if stored_is_a else (other, stored)
    return gemm(a, b, None, transpose_a, transpose_b)  # type: ignore[no-any-return]


@defines(
    "(Tensor other, Tensor[] source, str recipe, int[] shape, bool stored_is_a, bool transpose_a, bool transpose_b, "
    "bool a_rows_first, bool b_rows_first, bool out_rows_first, float alpha) -> Tensor"
)
def stored_batch_gemm(
    other: Tensor,
    source: Sequence[Tensor],
    recipe: str,
    shape: Sequence[int],
    stored_is_a: bool,
    transpose_a: bool,
    transpose_b: bool,
    a_rows_first: bool,
    b_rows_first: bool,
    out_rows_first: bool,
    alpha: float,
) -> Tensor:
    """As batch_gemm; one of its operands is stored."""
    stored = other.new_empty(list(shape))
    a, b = (stored, other) if stored_is_a else (other, stored)
    flags = transpose_a, transpose_b, a_rows_first, b_rows_first, out_rows_first
    return batch_gemm(a, b, *flags, alpha)  # type: ignore[no-any-return]


@defines(
    "(Tensor grad, Tensor[] source, str recipe, int[] shape, int[] kernel_size, int[] stride, int[] padding, "
    "int[] dilation, int groups) -> Tensor"
)
def stored_convolution_weight_grad(
    grad: Tensor,
    source: Sequence[Tensor],
    recipe: str,
    shape: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    return grad.new_empty([grad.shape[1], shape[1] // groups, *kernel_size])


@defines(
    "(Tensor grad, Tensor[] source, str recipe, int[] shape, Tensor? weight, Tensor mean, Tensor var, "
    "bool batch_statistics, float eps) -> (Tensor, Tensor, Tensor)"
)
def stored_batch_norm_backward(
    grad: Tensor,
    source: Sequence[Tensor],
    recipe: str,
    shape: Sequence[int],
    weight: Tensor | None,
    mean: Tensor,
    var: Tensor,
    batch_statistics: bool,
    eps: float,
) -> tuple[Tensor, ...]:
    return torch.empty_like(grad), grad.new_empty([shape[1]]), grad.new_empty([shape[1]])


@defines(
    "(Tensor grad, Tensor[] source, str recipe, int[] shape, Tensor? weight, Tensor mean, Tensor rstd, int n_axes)"
    " -> (Tensor, Tensor, Tensor)"
)
def stored_layer_norm_backward(
    grad: Tensor,
    source: Sequence[Tensor],
    recipe: str,
    shape: Sequence[int],
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    n_axes: int,
) -> tuple[Tensor, ...]:
    parameter = [*shape[len(shape) - n_axes :]]
    return torch.empty_like(grad), grad.new_empty(parameter), grad.new_empty(parameter)


@defines("(Tensor grad, Tensor[] source, str recipe, int[] shape, str kind, float a, float b) -> Tensor")
def stored_activation_backward(
    grad: Tensor, source: Sequence[Tensor], recipe: str, shape: Sequence[int], kind: str, a: float, b: float
) -> Tensor:
    return torch.empty_like(grad)


@defines("(Tensor grad, Tensor[] source, str recipe, int[] shape, int axis, bool log) -> Tensor")
def stored_softmax_backward(
    grad: Tensor, source: Sequence[Tensor], recipe: str, shape: Sequence[int], axis: int, log: bool
) -> Tensor:
    """`axis` is not the first one."""
    return torch.empty_like(grad)
