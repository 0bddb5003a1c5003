"""Matrix products and convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from op_cases.case import Case, clamp, rand, vjp

aten = torch.ops.aten


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
