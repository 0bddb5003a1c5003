"""Negative log-likelihood of a log-softmax, summed over the batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4), nn.LogSoftmax(dim=1))


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output, target, reduction="sum")


def batch(batch_size: int = 6, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, width, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
