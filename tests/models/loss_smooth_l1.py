"""Smooth L1 and Huber loss, summed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.smooth_l1_loss(output, target, beta=0.5) + F.huber_loss(output, target, reduction="sum", delta=2.0)


def batch(batch_size: int = 6, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, width, generator=generator)
    return x, 3 * torch.randn(batch_size, 4, generator=generator)
