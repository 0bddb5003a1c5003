"""Cosine similarity to learned prototypes under a learned temperature, a 0-d parameter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Linear(6, width)
        self.prototypes = nn.Parameter(torch.randn(3, width))
        self.log_temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        similarity = F.normalize(self.body(x), dim=1) @ F.normalize(self.prototypes, dim=1).t()
        return similarity * self.log_temperature.exp()


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 6, generator=generator)
    return x, torch.randint(3, (batch_size,), generator=generator)
