"""Grouped and depthwise convolutions, one with a channel multiplier."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(6, 9, 3, padding=1, groups=3)
        self.depthwise = nn.Conv2d(9, 9, 3, stride=2, padding=1, groups=9, bias=False)
        self.multiplied = nn.Conv2d(9, 18, 3, padding=2, dilation=2, groups=9)
        self.head = nn.Linear(18, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.depthwise(F.relu(self.grouped(x))))
        logits: Tensor = self.head(self.multiplied(x).mean(dim=(2, 3)))
        return logits


def model() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 6, 8, 8, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
