"""Binary cross-entropy on probabilities."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4), nn.Sigmoid())


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy(output, target)


def batch(batch_size: int = 6, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, width, generator=generator)
    return x, torch.rand(batch_size, 4, generator=generator).round()
