"""Calls of every functional `daf::` operator but dropout, each with what PyTorch makes of the same arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import daf.exporter.ops

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Case:
    operator: str
    label: str
    args: Sequence[Any]
    reference: Callable[..., Any]  # of the same arguments, in float64
    batched: Sequence[int] = ()  # arguments whose axis 0 is the batch, where test_batch_is_dynamic runs the case

    def __str__(self) -> str:
        return f"{self.operator}-{self.label}"


_random = torch.Generator().manual_seed(0)


def rand(*shape: int) -> Tensor:
    return torch.randn(shape, generator=_random)


def below(limit: int, *shape: int) -> Tensor:
    return torch.randint(limit, shape, generator=_random)


def vjp(function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*leaves), leaves, grad)


def gemm(a: Tensor, b: Tensor, bias: Tensor | None, transpose_a: bool, transpose_b: bool) -> Tensor:
    product = (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)
    return product if bias is None else product + bias


def gemm_cases() -> Iterator[Case]:
    sizes = [(1, 1, 1), (3, 5, 4), (17, 33, 70), (70, 17, 300), (2, 3, 0)]
    for (m, n, k), ta, tb in itertools.product(sizes, (False, True), (False, True)):
        a, b = rand(*((k, m) if ta else (m, k))), rand(*((n, k) if tb else (k, n)))
        bias = rand(n) if ta == tb else None
        yield Case("gemm", f"{m}x{n}x{k}-{'NT'[ta]}{'NT'[tb]}", (a, b, bias, ta, tb), gemm)
    yield Case("gemm", "batched", (rand(3, 4, 5), rand(3, 6, 5), None, False, True), gemm, batched=(0, 1))
    yield Case("gemm", "linear", (rand(4, 6), rand(5, 6), rand(5), False, True), gemm, batched=(0,))


def gemm_add(
    a: Tensor, b: Tensor, bias: Tensor | None, addend: Tensor | None, transpose_a: bool, transpose_b: bool, alpha: float
) -> Tensor:
    result = alpha * gemm(a, b, None, transpose_a, transpose_b)
    return result + sum(term for term in (bias, addend) if term is not None)


def gemm_add_cases() -> Iterator[Case]:
    for (m, n, k), with_bias, with_addend in itertools.product(
        [(3, 5, 4), (37, 50, 700)], (False, True), (False, True)
    ):
        bias, addend = rand(n) if with_bias else None, rand(m, n) if with_addend else None
        args = (rand(m, k), rand(n, k), bias, addend, False, True, 0.5)
        yield Case("gemm_add", f"{m}x{n}x{k}-{with_bias}-{with_addend}", args, gemm_add)
    yield Case("gemm_add", "batch", (rand(4, 6), rand(6, 5), None, rand(4, 5), False, False, 2.0), gemm_add, (0, 3))


def gemm_activation_cases() -> Iterator[Case]:
    def reference(a: Tensor, b: Tensor, bias: Tensor | None, ta: bool, tb: bool, *kind: Any) -> Tensor:
        return clamp(*kind, gemm(a, b, bias, ta, tb))

    for (m, n, k), kind in itertools.product(
        [(4, 5, 3), (24, 32, 700)], [("relu", 0.0, 0.0), ("hardtanh", -2.0, 30.0)]
    ):
        for bias in (None, rand(n)):
            label = f"{m}x{n}x{k}-{kind[0]}-{bias is not None}"
            args = (rand(m, k), rand(n, k), bias, False, True, *kind)
            yield Case("gemm_activation", label, args, reference, (0,) if m == 4 else ())


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
    a, b = (x.transpose(1, 2) if rows_first else x for x, rows_first in ((a, a_rows_first), (b, b_rows_first)))
    product = alpha * gemm(a, b, None, transpose_a, transpose_b)
    return product.transpose(1, 2).contiguous() if out_rows_first else product


def batch_gemm_cases() -> Iterator[Case]:
    batch, heads, m, n, k = 4, 3, 5, 7, 6
    for flags in itertools.product((False, True), repeat=5):
        ta, tb, a_first, b_first, _ = flags
        a_rows, b_rows = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
        a = rand(batch, a_rows[0], heads, a_rows[1]) if a_first else rand(batch, heads, *a_rows)
        b = rand(batch, b_rows[0], heads, b_rows[1]) if b_first else rand(batch, heads, *b_rows)
        label = "".join("01"[flag] for flag in flags)
        yield Case("batch_gemm", label, (a, b, *flags, 0.5), batch_gemm, (0, 1) if label in ("00000", "01111") else ())


# x, weight, stride, padding, dilation, groups
CONVOLUTIONS = {
    "1x1": ((4, 3, 5, 6), (4, 3, 1, 1), [1, 1], [0, 0], [1, 1], 1),
    "3x3": ((4, 3, 8, 9), (5, 3, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "strided": ((2, 4, 9, 10), (6, 4, 3, 3), [2, 2], [1, 1], [1, 1], 1),
    "remainder": ((2, 3, 8, 8), (4, 3, 3, 2), [3, 2], [0, 1], [1, 1], 1),
    "dilated": ((2, 3, 9, 11), (4, 3, 3, 3), [1, 2], [2, 1], [2, 3], 1),
    "grouped": ((2, 6, 7, 7), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], 2),
    "depthwise": ((2, 6, 7, 8), (6, 1, 3, 3), [2, 1], [1, 1], [1, 1], 6),
    "multiplier": ((2, 3, 6, 6), (6, 1, 3, 3), [1, 1], [1, 1], [1, 1], 3),
    "wide": ((1, 40, 6, 6), (33, 40, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    "line": ((4, 3, 12), (5, 3, 4), [2], [2], [1], 1),
    "depthwise-line": ((2, 4, 10), (4, 1, 3), [1], [2], [2], 4),
}


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *geometry: Any) -> Tensor:
    stride, padding, dilation, groups = geometry
    no_output_padding = [0] * len(stride)
    return aten.convolution(x, weight, bias, stride, padding, dilation, False, no_output_padding, groups)


def convolution_cases() -> Iterator[Case]:
    for label, (x_shape, weight_shape, *geometry) in CONVOLUTIONS.items():
        x, weight, bias = rand(*x_shape), rand(*weight_shape), rand(weight_shape[0])
        y = convolution(x, weight, bias, *geometry)
        grad = rand(*y.shape)

        # `geometry` is bound to the case, not to the loop.
        def input_grad(grad: Tensor, weight: Tensor, bias: None, size: list[int], *geometry: Any) -> Tensor:
            x = grad.new_zeros(grad.shape[0], weight.shape[1] * geometry[-1], *size)
            return vjp(lambda x: convolution(x, weight, None, *geometry), [x], grad)[0]

        def weight_grad(grad: Tensor, x: Tensor, kernel: list[int], *geometry: Any) -> Tensor:
            weight = grad.new_zeros(grad.shape[1], x.shape[1] // geometry[-1], *kernel)
            return vjp(lambda weight: convolution(x, weight, None, *geometry), [weight], grad)[0]

        batch = label in ("3x3", "line")
        yield Case("convolution", label, (x, weight, bias, *geometry), convolution, (0,) if batch else ())
        yield Case(
            "convolution_input_grad",
            label,
            (grad, weight, None, list(x_shape[2:]), *geometry),
            input_grad,
            (0,) if batch else (),
        )
        yield Case(
            "convolution_weight_grad",
            label,
            (grad, x, list(weight_shape[2:]), *geometry),
            weight_grad,
            (0, 1) if batch else (),
        )
    yield Case(
        "convolution", "no-bias", (rand(2, 3, 5, 5), rand(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], 1), convolution
    )


def transposed_convolution_cases() -> Iterator[Case]:
    # x, weight, stride, padding, output_padding, dilation, groups
    geometries = {
        "transposed": ((2, 4, 5, 6), (4, 3, 3, 3), [2, 2], [1, 1], [1, 0], [1, 1], 1),
        "transposed-grouped": ((2, 4, 5, 5), (4, 2, 2, 3), [1, 2], [0, 1], [0, 1], [2, 1], 2),
        "transposed-line": ((2, 4, 7), (4, 3, 3), [3], [0], [2], [1], 1),
    }
    for label, (x_shape, weight_shape, stride, padding, output_padding, dilation, groups) in geometries.items():
        x, weight, bias = rand(*x_shape), rand(*weight_shape), rand(weight_shape[1] * groups)

        def reference(
            x: Tensor,
            weight: Tensor,
            bias: Tensor,
            _: list[int],
            *geometry: Any,
            output_padding: list[int] = output_padding,
        ) -> Tensor:
            stride, padding, dilation, groups = geometry
            return aten.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)

        size = list(reference(x, weight, bias, [], stride, padding, dilation, groups).shape[2:])
        args = (x, weight, bias, size, stride, padding, dilation, groups)
        yield Case("convolution_input_grad", label, args, reference)


def batch_norm_train(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    if running_mean is None or running_var is None:  # the "new running" statistics are then the batch's own
        running_mean, running_var, momentum = x.new_zeros(x.shape[1]), x.new_zeros(x.shape[1]), 1.0
    new_mean, new_var = running_mean.clone(), running_var.clone()
    y = F.batch_norm(x, new_mean, new_var, weight, bias, True, momentum, eps)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    if x.numel() == 0:
        return y, torch.zeros_like(new_mean), torch.zeros_like(new_mean), new_mean, new_var
    return y, x.mean(axes), x.var(axes, correction=0), new_mean, new_var


def batch_norm_eval(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float
) -> Tensor:
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


def batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, var: Tensor, batch_statistics: bool, eps: float
) -> tuple[Tensor, ...]:
    statistics = (None, None) if batch_statistics else (mean, var)
    one, zero = torch.ones_like(mean), torch.zeros_like(mean)
    return vjp(
        lambda x, w, b: F.batch_norm(x, *statistics, w, b, batch_statistics, 0.0, eps),
        [x, one if weight is None else weight, zero],
        grad,
    )


def batch_norm_cases() -> Iterator[Case]:
    for shape in [(4, 3), (4, 3, 5), (4, 3, 5, 6), (2, 3, 2, 3, 4)]:
        label = f"{len(shape)}d"
        batched = len(shape) == 4
        c = shape[1]
        x, grad, weight, bias = rand(*shape), rand(*shape), rand(c), rand(c)
        mean, var = rand(c), rand(c).exp()
        axes = [axis for axis in range(x.dim()) if axis != 1]
        own_mean, own_var = x.mean(axes), x.var(axes, correction=0)
        yield Case(
            "batch_norm_train",
            label,
            (x, weight, bias, mean, var, 0.1, 1e-5),
            batch_norm_train,
            (0,) if batched else (),
        )
        yield Case("batch_norm_train", f"{label}-plain", (x, None, None, None, None, 0.1, 1e-3), batch_norm_train)
        yield Case(
            "batch_norm_eval", label, (x, weight, bias, mean, var, 1e-5), batch_norm_eval, (0,) if batched else ()
        )
        yield Case("batch_norm_eval", f"{label}-plain", (x, None, None, mean, var, 1e-5), batch_norm_eval)
        yield Case("batch_norm_backward", label, (grad, x, weight, own_mean, own_var, True, 1e-5), batch_norm_backward)
        yield Case(
            "batch_norm_backward",
            f"{label}-constant",
            (grad, x, weight, mean, var, False, 1e-5),
            batch_norm_backward,
            (0, 1) if batched else (),
        )
        yield Case(
            "batch_norm_backward", f"{label}-plain", (grad, x, None, own_mean, own_var, True, 1e-5), batch_norm_backward
        )


def clamp(kind: str, a: float, b: float, y: Tensor) -> Tensor:
    return torch.relu(y) if kind == "relu" else F.hardtanh(y, a, b)


def batch_norm_activation_cases() -> Iterator[Case]:
    for kind in [("relu", 0.0, 0.0), ("hardtanh", -0.5, 0.75)]:
        x, grad, weight, bias = rand(4, 3, 5, 6), rand(4, 3, 5, 6), rand(3), rand(3)
        mean, var = rand(3), rand(3).exp()
        own_mean, own_var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)

        def train(*args: Any) -> tuple[Tensor, ...]:
            y, *statistics = batch_norm_train(*args[:-3])
            return clamp(*args[-3:], y), *statistics

        def evaluate(*args: Any) -> Tensor:
            return clamp(*args[-3:], batch_norm_eval(*args[:-3]))

        def backward(grad: Tensor, y: Tensor, *args: Any) -> tuple[Tensor, ...]:
            *others, kind, a, b = args
            stopped = (y <= 0) if kind == "relu" else (y <= a) | (y >= b)
            return batch_norm_backward(grad.masked_fill(stopped, 0), *others)

        label = kind[0]
        yield Case("batch_norm_activation_train", label, (x, weight, bias, mean, var, 0.1, 1e-5, *kind), train, (0,))
        yield Case("batch_norm_activation_eval", label, (x, weight, bias, mean, var, 1e-5, *kind), evaluate, (0,))
        y = clamp(*kind, F.batch_norm(x, None, None, weight, bias, True))
        arguments = (grad, y, x, weight, own_mean, own_var, True, 1e-5, *kind)
        yield Case("batch_norm_activation_backward", label, arguments, backward)
        arguments = (grad, y, x, weight, mean, var, False, 1e-5, *kind)
        yield Case("batch_norm_activation_backward", f"{label}-constant", arguments, backward, (0, 1, 2))


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, n_axes: int, eps: float) -> tuple[Tensor, ...]:
    axes = list(range(-n_axes, 0))
    y = F.layer_norm(x, x.shape[-n_axes:], weight, bias, eps)
    return y, x.mean(axes), (x.var(axes, correction=0) + eps).rsqrt()


def layer_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, n_axes: int
) -> tuple[Tensor, ...]:
    # eps is inside of rstd; the cases use one small enough not to count.
    parameter = x.shape[-n_axes:]
    inputs = [x, x.new_ones(parameter) if weight is None else weight, x.new_zeros(parameter)]
    return vjp(lambda x, w, b: F.layer_norm(x, parameter, w, b, 1e-12), inputs, grad)


def layer_norm_cases() -> Iterator[Case]:
    for shape, n_axes in [((4, 7), 1), ((4, 3, 70), 1), ((2, 3, 4, 5), 2), ((6,), 1)]:
        label = f"{'x'.join(map(str, shape))}-last{n_axes}"
        batched = shape == (4, 3, 70)
        x, grad = rand(*shape), rand(*shape)
        weight, bias = rand(*shape[-n_axes:]), rand(*shape[-n_axes:])
        statistics = layer_norm(x, None, None, n_axes, 1e-12)[1:]
        yield Case("layer_norm", label, (x, weight, bias, n_axes, 1e-5), layer_norm, (0,) if batched else ())
        yield Case("layer_norm", f"{label}-plain", (x, None, None, n_axes, 0.5), layer_norm)
        yield Case(
            "layer_norm_backward",
            label,
            (grad, x, weight, *statistics, n_axes),
            layer_norm_backward,
            (0, 1, 3, 4) if batched else (),
        )
        yield Case("layer_norm_backward", f"{label}-plain", (grad, x, None, *statistics, n_axes), layer_norm_backward)


def group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float) -> tuple[Tensor, ...]:
    rows = x.reshape(x.shape[0], groups, -1) if x.numel() else x.new_zeros(x.shape[0], groups, 1)
    y = F.group_norm(x, groups, weight, bias, eps)
    return y, rows.mean(-1), (rows.var(-1, correction=0) + eps).rsqrt()


def group_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, groups: int
) -> tuple[Tensor, ...]:
    c = x.shape[1]
    inputs = [x, x.new_ones(c) if weight is None else weight, x.new_zeros(c)]
    return vjp(lambda x, w, b: F.group_norm(x, groups, w, b, 1e-12), inputs, grad)


def group_norm_cases() -> Iterator[Case]:
    for shape, groups in [((4, 6, 5, 3), 3), ((2, 4, 7), 1), ((3, 8), 2), ((2, 3, 4, 4), 3)]:
        label = f"{'x'.join(map(str, shape))}-{groups}"
        batched = groups == 3 and shape[0] == 4
        x, grad, weight, bias = rand(*shape), rand(*shape), rand(shape[1]), rand(shape[1])
        statistics = group_norm(x, None, None, groups, 1e-12)[1:]
        yield Case("group_norm", label, (x, weight, bias, groups, 1e-5), group_norm, (0,) if batched else ())
        yield Case("group_norm", f"{label}-plain", (x, None, None, groups, 0.5), group_norm)
        yield Case(
            "group_norm_backward",
            label,
            (grad, x, weight, *statistics, groups),
            group_norm_backward,
            (0, 1, 3, 4) if batched else (),
        )
        yield Case("group_norm_backward", f"{label}-plain", (grad, x, None, *statistics, groups), group_norm_backward)


# kind -> (a, b, the function)
ACTIVATIONS: dict[str, tuple[float, float, Callable[[Tensor], Tensor]]] = {
    "relu": (0.0, 0.0, torch.relu),
    "hardtanh": (-0.5, 1.5, lambda x: F.hardtanh(x, -0.5, 1.5)),
    "leaky_relu": (0.2, 0.0, lambda x: F.leaky_relu(x, 0.2)),
    "elu": (1.5, 0.0, lambda x: F.elu(x, 1.5)),
    "sigmoid": (0.0, 0.0, torch.sigmoid),
    "tanh": (0.0, 0.0, torch.tanh),
    "silu": (0.0, 0.0, F.silu),
    "hardswish": (0.0, 0.0, F.hardswish),
    "gelu": (0.0, 0.0, F.gelu),
    "gelu_tanh": (0.0, 0.0, lambda x: F.gelu(x, approximate="tanh")),
}


def activation_cases() -> Iterator[Case]:
    for kind, (a, b, function) in ACTIVATIONS.items():
        x, grad = 3 * rand(4, 5, 7), rand(4, 5, 7)
        saves_output = daf.exporter.ops.ACTIVATION_SAVES_OUTPUT[kind]
        saved = function(x) if saves_output else x
        # What backward reads when it reads the output is derived from x here: the reference needs x.
        expected = vjp(function, [x.double()], grad.double())[0]
        yield Case("activation", kind, (x, kind, a, b), lambda x, *_, f=function: f(x), (0,) if kind == "gelu" else ())
        yield Case("activation_backward", kind, (grad, saved, kind, a, b), lambda *_, e=expected: e)
    yield Case("activation", "scalar", (torch.tensor(-0.5), "elu", 1.0, 0.0), lambda x, *_: F.elu(x))
    yield Case(
        "activation_backward",
        "batch",
        (rand(4, 3), rand(4, 3), "silu", 0.0, 0.0),
        lambda grad, x, *_: vjp(F.silu, [x], grad)[0],
        (0, 1),
    )


def softmax(x: Tensor, axis: int, log: bool) -> Tensor:
    return x.log_softmax(axis) if log else x.softmax(axis)


def softmax_backward(grad: Tensor, y: Tensor, axis: int, log: bool) -> Tensor:
    backward = aten._log_softmax_backward_data if log else aten._softmax_backward_data
    return backward(grad, y, axis, y.dtype)


def softmax_cases() -> Iterator[Case]:
    for (shape, axis), log in itertools.product([((4, 10), 1), ((4, 3, 5), 1), ((4, 3), 0), ((7,), 0)], (False, True)):
        label = f"{'x'.join(map(str, shape))}-axis{axis}{'-log' if log else ''}"
        x, grad = 4 * rand(*shape), rand(*shape)
        batched = shape == (4, 10)
        yield Case("softmax", label, (x, axis, log), softmax, (0,) if batched else ())
        yield Case(
            "softmax_backward",
            label,
            (grad, softmax(x, axis, log), axis, log),
            softmax_backward,
            (0, 1) if batched else (),
        )
    yield Case("softmax", "large", (1e4 * rand(3, 5), 1, True), softmax)
    yield Case("softmax", "masked", (rand(3, 5).masked_fill(below(2, 3, 5) == 1, -torch.inf), 1, False), softmax)


def masked_softmax_cases() -> Iterator[Case]:
    shape = (4, 3, 5, 21)
    for mask_shape in [(4, 1, 1, 21), (1, 1, 5, 21), (4, 3, 5, 21), (21,), (5, 1)]:
        mask = rand(*mask_shape)
        mask.view(-1)[::3] = torch.finfo(torch.float32).min
        args = (4 * rand(*shape), mask)
        batched = (0, 1) if mask_shape == (4, 1, 1, 21) else ()
        yield Case("masked_softmax", str(mask_shape), args, lambda x, mask: torch.softmax(x + mask, -1), batched)


ARITHMETIC = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div}


def arithmetic_cases() -> Iterator[Case]:
    shapes = [
        ((4, 5), (4, 5)),
        ((4, 1, 6, 70), (3, 1, 70)),
        ((), (3, 4)),
        ((4, 3, 2), ()),
        ((4, 3, 7, 7), (3, 1, 1)),
        ((5, 1), (1, 6)),
        ((1, 1), (1,)),
    ]
    for kind, function in ARITHMETIC.items():

        def reference(a: Tensor, b: Any, kind: str, function: Callable[..., Tensor] = function) -> Tensor:
            return function(a, b)

        for a_shape, b_shape in shapes:
            batched = (0, 1) if a_shape == (4, 5) else ()
            label = f"{kind}-{a_shape}-{b_shape}"
            yield Case("arithmetic", label, (rand(*a_shape), rand(*b_shape).exp(), kind), reference, batched)
        yield Case("arithmetic_scalar", kind, (rand(4, 37), 0.25, kind), reference, (0,))


def add_activation_cases() -> Iterator[Case]:
    for kind in [("relu", 0.0, 0.0), ("hardtanh", -0.5, 0.75)]:
        args = (rand(4, 3, 37), rand(4, 3, 37), *kind)
        yield Case("add_activation", kind[0], args, lambda x, other, *kind: clamp(*kind, x + other), (0, 1))


def copy_cases() -> Iterator[Case]:
    def permute(x: Tensor, axes: list[int]) -> Tensor:
        return x.permute(axes).contiguous()

    for axes in itertools.permutations(range(4)):
        args = (rand(4, 3, 10, 17), list(axes))
        yield Case("permute", "".join(map(str, axes)), args, permute, (0,) if axes == (0, 2, 1, 3) else ())
    yield Case("permute", "number", (rand(), []), permute)

    def expand(x: Tensor, size: list[int]) -> Tensor:
        return x.expand(size).contiguous()

    sizes = [((4, 1, 6), [4, 5, 6]), ((4, 3, 1, 1), [-1, -1, 3, 3]), ((3,), [2, 4, 3]), ((), [2, 2]), ((2, 1), [2, 1])]
    for shape, size in sizes:
        yield Case("expand", str(size), (rand(*shape), size), expand, (0,) if size[0] == -1 else ())


REDUCTIONS = ["none", "mean", "sum"]


def nll_loss(
    log_p: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, ...]:
    loss = F.nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction])
    counted = target[target != ignore_index]
    total = (log_p.new_ones(counted.shape) if weight is None else weight[counted]).sum()
    return loss, total if reduction else torch.zeros_like(total)


def nll_loss_backward(
    grad: Tensor,
    log_p: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total_weight: Tensor,
    reduction: int,
    ignore_index: int,
) -> Tensor:
    summed = 2 if reduction == 1 else reduction  # a mean is the sum over `total_weight`
    result = vjp(lambda log_p: nll_loss(log_p, target, weight, summed, ignore_index)[0], [log_p], grad)[0]
    return result / total_weight if reduction == 1 else result


def cross_entropy_backward(grad: Tensor, log_p: Tensor, *rest: Any) -> Tensor:
    grad_log_p = nll_loss_backward(grad, log_p, *rest)
    return grad_log_p - log_p.exp() * grad_log_p.sum(1, keepdim=True)


def nll_loss_cases() -> Iterator[Case]:
    shapes = {"2d": ((4, 5), (4,)), "4d": ((2, 5, 3, 4), (2, 3, 4)), "3d": ((4, 5, 6), (4, 6)), "1d": ((5,), ())}
    for (label, (shape, target_shape)), reduction in itertools.product(shapes.items(), range(3)):
        log_p, target, weight = rand(*shape).log_softmax(0), below(5, *target_shape), rand(5).exp()
        for settings in [(None, -100), (weight, 3)]:
            forward = (log_p, target, settings[0], reduction, settings[1])
            loss, total = nll_loss(*forward)
            name = f"{label}-{REDUCTIONS[reduction]}{'-weighted' if settings[0] is not None else ''}"
            batched = label == "2d" and settings[0] is None
            yield Case("nll_loss", name, forward, nll_loss, (0, 1) if batched else ())
            if not (reduction == 1 and total == 0):
                backward = (rand(*loss.shape), log_p, target, settings[0], total, *forward[3:])
                grads = (0,) if reduction == 0 else ()
                yield Case("nll_loss_backward", name, backward, nll_loss_backward, (*grads, 1, 2) if batched else ())
                if log_p.dim() == 2:
                    yield Case("cross_entropy_backward", name, backward, cross_entropy_backward, (*grads, 1, 2))
    nothing_counts = (rand(3, 5), torch.full((3,), -100), None, 1, -100)
    yield Case("nll_loss", "all-ignored", nothing_counts, nll_loss)


# x, kernel, stride, padding, dilation, ceil_mode
POOLS = {
    "2x2": ((4, 3, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False),
    "3x3-padded": ((2, 3, 9, 8), [3, 3], [2, 2], [1, 1], [1, 1], False),
    "ceil": ((2, 3, 8, 7), [3, 2], [2, 3], [1, 0], [1, 1], True),
    "ceil-skips": ((1, 2, 5, 5), [2, 2], [3, 3], [1, 1], [1, 1], True),
    "dilated": ((2, 3, 9, 9), [3, 2], [1, 2], [1, 1], [2, 3], False),
    "line": ((2, 1, 12), [1, 3], [1, 3], [0, 1], [1, 1], False),
    "large": ((1, 2, 20, 40), [16, 17], [4, 5], [0, 0], [1, 1], False),  # offsets do not fit a byte
}


def max_pool2d(
    x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    y, place = F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
    row, column = place // x.shape[-1], place % x.shape[-1]
    first_row = torch.arange(y.shape[-2])[:, None] * stride[0] - padding[0]
    first_column = torch.arange(y.shape[-1]) * stride[1] - padding[1]
    offset = (row - first_row) // dilation[0] * kernel[1] + (column - first_column) // dilation[1]
    return y, offset.to(torch.uint8 if kernel[0] * kernel[1] <= 256 else torch.int32)


def avg_pool2d(
    x: Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int,
) -> Tensor:
    return F.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor or None)


def pool_cases() -> Iterator[Case]:
    for label, (shape, kernel, stride, padding, dilation, ceil_mode) in POOLS.items():
        x = rand(*shape)
        batched = label == "2x2"
        y, offset = max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
        grad = rand(*y.shape)
        max_args = (x, kernel, stride, padding, dilation, ceil_mode)
        yield Case("max_pool2d", label, max_args, max_pool2d, (0,) if batched else ())

        def max_grad(grad: Tensor, *_: Any, settings: Any = max_args) -> Tensor:
            x = settings[0].double()[: grad.shape[0]]
            return vjp(lambda x: F.max_pool2d(x, *settings[1:]), [x], grad)[0]

        yield Case(
            "max_pool2d_backward",
            label,
            (grad, offset, list(shape[-2:]), kernel, stride, padding, dilation),
            max_grad,
            (0, 1) if batched else (),
        )
        if dilation != [1, 1]:
            continue
        for count_include_pad, divisor in [(True, 0), (False, 0), (True, 5)]:
            name = f"{label}-{'padded' if count_include_pad else 'inside'}{divisor or ''}"
            avg_args = (x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
            yield Case("avg_pool2d", name, avg_args, avg_pool2d, (0,) if batched else ())

            def avg_grad(grad: Tensor, *_: Any, settings: Any = avg_args) -> Tensor:
                x = settings[0].double()[: grad.shape[0]]
                return vjp(lambda x: avg_pool2d(x, *settings[1:]), [x], grad)[0]

            yield Case(
                "avg_pool2d_backward",
                name,
                (grad, list(shape[-2:]), kernel, stride, padding, count_include_pad, divisor),
                avg_grad,
                (0,) if batched else (),
            )


def adaptive_avg_pool2d_cases() -> Iterator[Case]:
    def backward(grad: Tensor, size: list[int]) -> Tensor:
        x = grad.new_zeros(*grad.shape[:-2], *size)
        return vjp(lambda x: F.adaptive_avg_pool2d(x, tuple(grad.shape[-2:])), [x], grad)[0]

    for shape, size in [((4, 3, 7, 8), [1, 1]), ((2, 3, 7, 8), [3, 5]), ((2, 3, 2), [4, 3])]:
        label = f"{'x'.join(map(str, size))}"
        batched = (0,) if shape[0] == 4 else ()
        yield Case("adaptive_avg_pool2d", label, (rand(*shape), size), F.adaptive_avg_pool2d, batched)
        grad = rand(*shape[:-2], *size)
        yield Case("adaptive_avg_pool2d_backward", label, (grad, list(shape[-2:])), backward, batched)


def embedding_backward(grad: Tensor, index: Tensor, n_rows: int, padding_idx: int) -> Tensor:
    return aten.embedding_dense_backward(grad, index, n_rows, padding_idx, False)


def embedding_cases() -> Iterator[Case]:
    for shape in [(4, 5), (6,), ()]:
        label, index = f"{len(shape)}d", below(7, *shape)
        batched = len(shape) == 2
        yield Case(
            "embedding", label, (rand(7, 3), index), lambda weight, index: weight[index], (1,) if batched else ()
        )
        for padding_idx in (-1, int(index.flatten()[0])):
            yield Case(
                "embedding_backward",
                f"{label}-padding{padding_idx}",
                (rand(*shape, 3), index, 7, padding_idx),
                embedding_backward,
                (0, 1) if batched else (),
            )


def sum_axes(x: Tensor, axes: list[int], keepdim: bool, mean: bool) -> Tensor:
    return x.mean(axes, keepdim) if mean else x.sum(axes, keepdim)


def sum_axes_cases() -> Iterator[Case]:
    for axes, keepdim in itertools.product([[0], [1], [3], [0, 2, 3], [1, 2], [0, 1, 2, 3]], (False, True)):
        label = f"{''.join(map(str, axes))}{'-keepdim' if keepdim else ''}"
        for mean in (False, True):
            args = (rand(4, 3, 5, 70), axes, keepdim, mean)
            yield Case("sum_axes", f"{label}{'-mean' if mean else ''}", args, sum_axes, (0,) if keepdim else ())


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
    *sum_axes_cases(),
]
