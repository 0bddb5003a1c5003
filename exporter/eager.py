"""PyTorch's own step, for comparison: the same model and batch, the same dropout masks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from daf import native


class _ProgramDropout(TorchDispatchMode):
    """Draws dropout masks as the program does: from (seed, step, number of the dropout, index)."""

    def __init__(self, seed: int, step: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed, self._step = seed, step
        self._layer = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.bernoulli_.float:
            noise, keep = args[0], float(args[1])
            ones = torch.ones(noise.shape, dtype=torch.float32)
            p = 1.0 - keep
            mask = native.dropout(ones.numpy(), p, self._seed, self._step, self._layer)
            self._layer += 1
            return noise.copy_(torch.from_numpy(mask) != 0)
        return func(*args, **(kwargs or {}))


@contextmanager
def program_dropout(seed: int, step: int) -> Iterator[None]:
    """Within it, eager PyTorch on the CPU drops the same elements as the program at that step."""
    with _ProgramDropout(seed, step):
        yield


def loss_and_gradients(
    model: nn.Module,
    batch: tuple[Tensor, ...],
    loss: Callable[[Any, Tensor], Tensor],
    seed: int = 0,
    step: int = 0,
) -> tuple[float, dict[str, Tensor]]:
    """One forward and backward; the model's buffers and gradients are left as they were."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with program_dropout(seed, step):
        value = loss(model(*batch[:-1]), batch[-1])
    found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
    with torch.no_grad():
        model.load_state_dict(state)
    gradients = {name: grad.detach() for name, grad in zip(parameters, found, strict=True) if grad is not None}
    return float(value.detach()), gradients


def in_double(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Copies in float64: what float32 arithmetic is measured against."""
    return copy.deepcopy(model).double(), tuple(t.double() if t.is_floating_point() else t for t in batch)
