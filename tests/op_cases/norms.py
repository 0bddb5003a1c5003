"""Batch, layer and group normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from op_cases.case import Case, clamp, rand, vjp

aten = torch.ops.aten


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
