"""Convolutions with unequal strides, paddings, dilations and kernel sizes, with and without bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.strided = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.uneven = nn.Conv2d(width, width, (3, 5), stride=(1, 2), padding=(0, 2), bias=False)
        self.dilated = nn.Conv2d(width, width, 3, padding=(2, 3), dilation=(2, 3))
        self.pointwise = nn.Conv2d(width, width, 1, stride=2, bias=False)
        self.head = nn.Conv2d(width, 5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.uneven(F.relu(self.strided(x))))
        x = self.head(self.pointwise(F.relu(self.dilated(x))))
        return x.mean(dim=(2, 3))


def model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 3, 15, 17, generator=generator)
    return x, torch.randint(5, (batch_size,), generator=generator)
