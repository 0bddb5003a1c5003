"""Losses, pooling, embeddings, gathering, sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from op_cases.case import Case, below, rand, vjp

aten = torch.ops.aten


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


def cross_entropy(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    def loss(x: Tensor) -> Tensor:
        return nll_loss(x.log_softmax(1), *rest)[0]

    return loss(x), vjp(loss, [x], torch.ones([]))[0]


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
            if log_p.dim() == 2 and reduction != 0:
                logits = (4 * rand(*shape), *forward[1:])
                yield Case("cross_entropy", name, logits, cross_entropy, (0, 1) if batched else ())
    nothing_counts = (rand(3, 5), torch.full((3,), -100), None, 1, -100)
    yield Case("nll_loss", "all-ignored", nothing_counts, nll_loss)
    yield Case("cross_entropy", "all-ignored", nothing_counts, cross_entropy)


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


def gather_channels(x: Tensor, index: Tensor, groups: int, block: int) -> Tensor:
    channels = x.unflatten(1, (groups, x.shape[1] // (groups * block), block))
    return channels[:, :, index[0]].flatten(1, 3)


def gather_channels_cases() -> Iterator[Case]:
    index = torch.tensor([[0, 2], [7, 9]])
    for groups, block in ((1, 1), (4, 1), (1, 2)):
        for shape in ((3, 12), (3, 12, 5, 2)):
            label = f"{len(shape)}d-groups{groups}-block{block}"
            yield Case("gather_channels", label, (rand(*shape), index, groups, block), gather_channels, (0,))


def sum_axes(x: Tensor, axes: list[int], keepdim: bool, mean: bool) -> Tensor:
    return x.mean(axes, keepdim) if mean else x.sum(axes, keepdim)


def sum_axes_cases() -> Iterator[Case]:
    for axes, keepdim in itertools.product([[0], [1], [3], [0, 2, 3], [1, 2], [0, 1, 2, 3]], (False, True)):
        label = f"{''.join(map(str, axes))}{'-keepdim' if keepdim else ''}"
        for mean in (False, True):
            args = (rand(4, 3, 5, 70), axes, keepdim, mean)
            yield Case("sum_axes", f"{label}{'-mean' if mean else ''}", args, sum_axes, (0,) if keepdim else ())
