"""Constant padding before an unpadded convolution, and a crop by negative padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, width, 3)
        self.conv2 = nn.Conv2d(width, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(F.pad(x, (1, 0, 2, 1))))
        x = self.conv2(F.pad(F.pad(x, (1, -1)), (-1, 2, 0, 0), value=0.5))
        return x.mean(dim=(2, 3))


def model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 2, 6, 6, generator=generator)
    return x, torch.randint(3, (batch_size,), generator=generator)
