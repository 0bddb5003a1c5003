"""Activations, softmax, arithmetic, copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import daf.exporter.ops
from op_cases.case import Case, below, clamp, rand, vjp

aten = torch.ops.aten

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
        slope = vjp(function, [x.double()], torch.ones_like(x, dtype=torch.float64))[0]
        yield Case("activation_derivative", kind, (saved, kind, a, b), lambda *_, e=slope: e)
    yield Case("activation", "scalar", (torch.tensor(-0.5), "elu", 1.0, 0.0), lambda x, *_: F.elu(x))
    yield Case(
        "activation_backward",
        "batch",
        (rand(4, 3), rand(4, 3), "silu", 0.0, 0.0),
        lambda grad, x, *_: vjp(F.silu, [x], grad)[0],
        (0, 1),
    )
    yield Case(
        "activation_derivative",
        "batch",
        (rand(4, 3), "silu", 0.0, 0.0),
        lambda x, *_: vjp(F.silu, [x], torch.ones_like(x))[0],
        (0,),
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
