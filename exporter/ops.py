"""The `daf::` operators: one table of schemas, and what each returns for given shapes.

The exporter only ever traces them on fake tensors; the arithmetic is in `runtime_ops`. Those that read and write the
activation store are in store_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from daf.exporter.define_operator import defines, library

# Operators that update their first argument in place: they run in the program only, never while tracing. `grad` may be
# of a block of rows (the first axis), which begins at `first_row`. Those with channels in their name update the
# channels that index[0] names, of `block` entries along `axis` each; their state is [channel, its weights].
IN_PLACE: dict[str, str] = {
    "sgd_": "(Tensor(a!) self, Tensor grad, Tensor lr, float weight_decay, int first_row) -> Tensor(a!)",
    "sgd_momentum_": (
        "(Tensor(a!) self, Tensor(b!) momentum_buffer, Tensor grad, Tensor lr, Tensor clock, "
        "float momentum, float dampening, float weight_decay, bool nesterov, int first_row) -> Tensor(a!)"
    ),
    "adamw_": (
        "(Tensor(a!) self, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor grad, Tensor lr, Tensor clock, "
        "float beta1, float beta2, float eps, float weight_decay, int first_row) -> Tensor(a!)"
    ),
    "sgd_channels_": (
        "(Tensor(a!) self, Tensor(b!) square_grad, Tensor index, Tensor grad, Tensor lr, float weight_decay, int axis, "
        "int block) -> Tensor(a!)"
    ),
    "sgd_momentum_channels_": (
        "(Tensor(a!) self, Tensor(b!) momentum_buffer, Tensor(c!) square_grad, Tensor index, Tensor grad, Tensor lr, "
        "Tensor clock, float momentum, float dampening, float weight_decay, bool nesterov, int axis, int block)"
        " -> Tensor(a!)"
    ),
    "adamw_channels_": (
        "(Tensor(a!) self, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!) square_grad, Tensor index, "
        "Tensor grad, Tensor lr, Tensor clock, float beta1, float beta2, float eps, float weight_decay, int axis, "
        "int block) -> Tensor(a!)"
    ),
}


def _define_in_place() -> None:
    for name, schema in IN_PLACE.items():
        library.define(f"{name}{schema}")
        torch.library.register_fake(f"daf::{name}", lambda self, *_: self, lib=library)


_define_in_place()


# ---- matrix products and convolution ----------------------------------------------------------------------------


@defines("(Tensor a, Tensor b, Tensor? bias, bool transpose_a, bool transpose_b) -> Tensor")
def gemm(a: Tensor, b: Tensor, bias: Tensor | None, transpose_a: bool, transpose_b: bool) -> Tensor:
    """op(a) @ op(b) + bias; a and b are both matrices or both batches of matrices."""
    rows = a.shape[-1] if transpose_a else a.shape[-2]
    columns = b.shape[-2] if transpose_b else b.shape[-1]
    return a.new_empty([*a.shape[:-2], rows, columns])


@defines(
    "(Tensor a, Tensor b, Tensor? bias, Tensor? addend, bool transpose_a, bool transpose_b, float alpha) -> Tensor"
)
def gemm_add(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    addend: Tensor | None,
    transpose_a: bool,
    transpose_b: bool,
    alpha: float,
) -> Tensor:
    """alpha op(a) @ op(b) + bias + addend, of matrices."""
    return gemm(a, b, bias, transpose_a, transpose_b)  # type: ignore[no-any-return]


# In all operators with an activation in their name it is a clamp: `kind` is relu or hardtanh, with its two numbers as
# those of `activation`.


@defines(
    "(Tensor a, Tensor b, Tensor? bias, bool transpose_a, bool transpose_b, str kind, float low, float high) -> Tensor"
)
def gemm_activation(
    a: Tensor, b: Tensor, bias: Tensor | None, transpose_a: bool, transpose_b: bool, kind: str, low: float, high: float
) -> Tensor:
    """The activation of op(a) @ op(b) + bias, of matrices."""
    return gemm(a, b, bias, transpose_a, transpose_b)  # type: ignore[no-any-return]


@defines(
    "(Tensor a, Tensor b, bool transpose_a, bool transpose_b, bool a_rows_first, bool b_rows_first, "
    "bool out_rows_first, float alpha) -> Tensor"
)
def batch_gemm(
    a: Tensor,
    b: Tensor,
    transpose_a: bool,
    transpose_b: bool,
    a_rows_first: bool,
    b_rows_first: bool,
    out_rows_first: bool,
    alpha: float,
) -> Tensor:
    """alpha op(a) @ op(b) for each head of an attention.

    A tensor is [batch, heads, rows, columns], or [batch, rows, heads, columns] where its flag says rows first.
    """
    batch, heads = a.shape[0], a.shape[2 if a_rows_first else 1]
    m = a.shape[3] if transpose_a else a.shape[1 if a_rows_first else 2]
    n = b.shape[1 if b_rows_first else 2] if transpose_b else b.shape[3]
    return a.new_empty([batch, m, heads, n] if out_rows_first else [batch, heads, m, n])


@defines("(Tensor x, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor")
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """One or two spatial axes, as all three convolution operators."""
    spatial = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    ]
    return x.new_empty([x.shape[0], weight.shape[0], *spatial])


@defines(
    "(Tensor grad, Tensor weight, Tensor? bias, int[] input_size, int[] stride, int[] padding, int[] dilation, "
    "int groups) -> Tensor"
)
def convolution_input_grad(
    grad: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    input_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Also the forward of a transposed convolution; `input_size` are the spatial axes of the result."""
    return grad.new_empty([grad.shape[0], weight.shape[1] * groups, *input_size])


@defines(
    "(Tensor grad, Tensor x, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"
)
def convolution_weight_grad(
    grad: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    return grad.new_empty([grad.shape[1], x.shape[1] // groups, *kernel_size])


@defines("(Tensor x, Tensor index, int groups, int block) -> Tensor")
def gather_channels(x: Tensor, index: Tensor, groups: int, block: int) -> Tensor:
    """The channels index[0] of each of `groups` along axis 1 of x; a channel is `block` entries there."""
    return x.new_empty([x.shape[0], groups * index.shape[1] * block, *x.shape[2:]])


# ---- normalisation ----------------------------------------------------------------------------------------------


@defines(
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def batch_norm_train(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """(y, mean, biased variance, new running mean, new running variance)"""
    return (torch.empty_like(x), *(x.new_empty([x.shape[1]]) for _ in range(4)))


@defines("(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor")
def batch_norm_eval(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float
) -> Tensor:
    return torch.empty_like(x)


@defines(
    "(Tensor grad, Tensor x, Tensor? weight, Tensor mean, Tensor var, bool batch_statistics, float eps)"
    " -> (Tensor, Tensor, Tensor)"
)
def batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, var: Tensor, batch_statistics: bool, eps: float
) -> tuple[Tensor, ...]:
    return torch.empty_like(x), x.new_empty([x.shape[1]]), x.new_empty([x.shape[1]])


@defines(
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps, "
    "str kind, float a, float b) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def batch_norm_activation_train(x: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return (torch.empty_like(x), *(x.new_empty([x.shape[1]]) for _ in range(4)))


@defines(
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, str kind, float a, float b) -> Tensor"
)
def batch_norm_activation_eval(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


@defines(
    "(Tensor grad, Tensor y, Tensor x, Tensor? weight, Tensor mean, Tensor var, bool batch_statistics, float eps, "
    "str kind, float a, float b) -> (Tensor, Tensor, Tensor)"
)
def batch_norm_activation_backward(grad: Tensor, y: Tensor, x: Tensor, *_: Any) -> tuple[Tensor, ...]:
    """`y` is after the activation."""
    return torch.empty_like(x), x.new_empty([x.shape[1]]), x.new_empty([x.shape[1]])


@defines("(Tensor x, Tensor? weight, Tensor? bias, int n_axes, float eps) -> (Tensor, Tensor, Tensor)")
def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, n_axes: int, eps: float) -> tuple[Tensor, ...]:
    """Over the last `n_axes` axes: (y, mean, 1 / standard deviation)."""
    rows = [*x.shape[: x.dim() - n_axes]]
    return torch.empty_like(x), x.new_empty(rows), x.new_empty(rows)


@defines("(Tensor grad, Tensor x, Tensor? weight, Tensor mean, Tensor rstd, int n_axes) -> (Tensor, Tensor, Tensor)")
def layer_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, n_axes: int
) -> tuple[Tensor, ...]:
    parameter = [*x.shape[x.dim() - n_axes :]]
    return torch.empty_like(x), x.new_empty(parameter), x.new_empty(parameter)


@defines("(Tensor x, Tensor? weight, Tensor? bias, int groups, float eps) -> (Tensor, Tensor, Tensor)")
def group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float) -> tuple[Tensor, ...]:
    statistics = [x.shape[0], groups]
    return torch.empty_like(x), x.new_empty(statistics), x.new_empty(statistics)


@defines("(Tensor grad, Tensor x, Tensor? weight, Tensor mean, Tensor rstd, int groups) -> (Tensor, Tensor, Tensor)")
def group_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, groups: int
) -> tuple[Tensor, ...]:
    return torch.empty_like(x), x.new_empty([x.shape[1]]), x.new_empty([x.shape[1]])


# ---- arithmetic and copies ------------------------------------------------------------------------------------

# As `Arithmetic` in runtime_ops/kernels/kernels.h.
ARITHMETIC = ("add", "subtract", "multiply", "divide")


@defines("(Tensor a, Tensor b, str kind) -> Tensor")
def arithmetic(a: Tensor, b: Tensor, kind: str) -> Tensor:
    return a.new_empty(torch.broadcast_shapes(a.shape, b.shape))


@defines("(Tensor a, float b, str kind) -> Tensor")
def arithmetic_scalar(a: Tensor, b: float, kind: str) -> Tensor:
    return torch.empty_like(a)


@defines("(Tensor x, Tensor other, str kind, float a, float b) -> Tensor")
def add_activation(x: Tensor, other: Tensor, kind: str, a: float, b: float) -> Tensor:
    """The activation of x + other, of one shape."""
    return torch.empty_like(x)


@defines("(Tensor x, int[] axes) -> Tensor")
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    return x.new_empty([x.shape[axis] for axis in axes])


@defines("(Tensor x, SymInt[] size) -> Tensor")
def expand(x: Tensor, size: Sequence[int]) -> Tensor:
    """A size of -1 is that of x."""
    n_new = len(size) - x.dim()
    return x.new_empty([x.shape[i - n_new] if n == -1 and i >= n_new else n for i, n in enumerate(size)])


# ---- activations, softmax, losses -------------------------------------------------------------------------------

# kind -> whether backward reads the output (otherwise the input). Of hardtanh both say the same, and the output is kept
# anyway when a layer follows. As `Activation` in runtime_ops/kernels/kernels.h.
ACTIVATION_SAVES_OUTPUT: dict[str, bool] = {
    "relu": True,
    "hardtanh": True,
    "leaky_relu": False,
    "elu": False,
    "sigmoid": True,
    "tanh": True,
    "silu": False,
    "hardswish": False,
    "gelu": False,
    "gelu_tanh": False,
    "exp": True,
}


@defines("(Tensor x, str kind, float a, float b) -> Tensor")
def activation(x: Tensor, kind: str, a: float, b: float) -> Tensor:
    return torch.empty_like(x)


@defines("(Tensor grad, Tensor saved, str kind, float a, float b) -> Tensor")
def activation_backward(grad: Tensor, saved: Tensor, kind: str, a: float, b: float) -> Tensor:
    return torch.empty_like(saved)


@defines("(Tensor x, int axis, bool log) -> Tensor")
def softmax(x: Tensor, axis: int, log: bool) -> Tensor:
    return torch.empty_like(x)


@defines("(Tensor grad, Tensor y, int axis, bool log) -> Tensor")
def softmax_backward(grad: Tensor, y: Tensor, axis: int, log: bool) -> Tensor:
    return torch.empty_like(y)


@defines("(Tensor x, Tensor mask) -> Tensor")
def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    """Over the last axis of x + mask."""
    return torch.empty_like(x)


@defines("(Tensor log_p, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor, Tensor)")
def nll_loss(
    log_p: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, ...]:
    """(loss, total weight); log_p is [c], [n, c] or [n, c, ...]; reduction 0 none, 1 mean, 2 sum."""
    return log_p.new_empty(list(target.shape) if reduction == 0 else []), log_p.new_empty([])


@defines(
    "(Tensor grad, Tensor log_p, Tensor target, Tensor? weight, Tensor total_weight, int reduction, "
    "int ignore_index) -> Tensor"
)
def nll_loss_backward(
    grad: Tensor,
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total_weight: Tensor,
    reduction: int,
    ignore_index: int,
) -> Tensor:
    """`log_p` gives the shape only."""
    return torch.empty_like(log_p)


@defines("(Tensor x, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor, Tensor)")
def cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, ...]:
    """(loss, the gradient of the logits x); x is [n, c], reduction 1 mean, 2 sum."""
    return x.new_empty([]), torch.empty_like(x)


# ---- pooling ----------------------------------------------------------------------------------------------------


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    pooled = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    # PyTorch's rule: the last window starts inside the input or its left padding.
    if ceil_mode and (pooled - 1) * stride >= size + padding:
        pooled -= 1
    return pooled


@defines("(Tensor x, int[] kernel, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> (Tensor, Tensor)")
def max_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Tensor, ...]:
    """(y, place of each maximum in its window)"""
    size = [_pooled(x.shape[i - 2], kernel[i], stride[i], padding[i], dilation[i], ceil_mode) for i in range(2)]
    shape = [*x.shape[:-2], *size]
    offset = torch.uint8 if kernel[0] * kernel[1] <= 256 else torch.int32
    return x.new_empty(shape), x.new_empty(shape, dtype=offset)


@defines(
    "(Tensor grad, Tensor offset, int[] input_size, int[] kernel, int[] stride, int[] padding, int[] dilation)"
    " -> Tensor"
)
def max_pool2d_backward(
    grad: Tensor,
    offset: Tensor,
    input_size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    return grad.new_empty([*grad.shape[:-2], *input_size])


@defines(
    "(Tensor x, int[] kernel, int[] stride, int[] padding, bool ceil_mode, bool count_include_pad, int divisor)"
    " -> Tensor"
)
def avg_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int,
) -> Tensor:
    """divisor 0: the number of elements in the window."""
    size = [_pooled(x.shape[i - 2], kernel[i], stride[i], padding[i], 1, ceil_mode) for i in range(2)]
    return x.new_empty([*x.shape[:-2], *size])


@defines(
    "(Tensor grad, int[] input_size, int[] kernel, int[] stride, int[] padding, bool count_include_pad, int divisor)"
    " -> Tensor"
)
def avg_pool2d_backward(
    grad: Tensor,
    input_size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    count_include_pad: bool,
    divisor: int,
) -> Tensor:
    return grad.new_empty([*grad.shape[:-2], *input_size])


@defines("(Tensor x, int[] output_size) -> Tensor")
def adaptive_avg_pool2d(x: Tensor, output_size: Sequence[int]) -> Tensor:
    return x.new_empty([*x.shape[:-2], *output_size])


@defines("(Tensor grad, int[] input_size) -> Tensor")
def adaptive_avg_pool2d_backward(grad: Tensor, input_size: Sequence[int]) -> Tensor:
    return grad.new_empty([*grad.shape[:-2], *input_size])


# ---- embedding, dropout, sums -----------------------------------------------------------------------------------


@defines("(Tensor weight, Tensor index) -> Tensor")
def embedding(weight: Tensor, index: Tensor) -> Tensor:
    return weight.new_empty([*index.shape, weight.shape[1]])


@defines("(Tensor grad, Tensor index, int n_rows, int padding_idx) -> Tensor")
def embedding_backward(grad: Tensor, index: Tensor, n_rows: int, padding_idx: int) -> Tensor:
    return grad.new_empty([n_rows, grad.shape[-1]])


@defines("(Tensor x, Tensor clock, float p, int layer) -> Tensor")
def dropout(x: Tensor, clock: Tensor, p: float, layer: int) -> Tensor:
    """The mask comes from (seed, step, layer, index): backward is the same operator on the gradient."""
    return torch.empty_like(x)


@defines("(Tensor x, int[] axes, bool keepdim, bool mean) -> Tensor")
def sum_axes(x: Tensor, axes: Sequence[int], keepdim: bool, mean: bool) -> Tensor:
    """`axes` are not negative and not empty."""
    shape = [1 if i in axes else size for i, size in enumerate(x.shape) if keepdim or i not in axes]
    return x.new_empty(shape)
