"""A call of a `daf::` operator, and what PyTorch makes of the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


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


def clamp(kind: str, a: float, b: float, y: Tensor) -> Tensor:
    return torch.relu(y) if kind == "relu" else torch.nn.functional.hardtanh(y, a, b)
