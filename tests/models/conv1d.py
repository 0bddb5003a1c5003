"""A sequence classifier: 1-d convolution, batch normalisation and max pooling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(3, width, 5, stride=2, padding=2)
        self.bn1 = nn.BatchNorm1d(width)
        self.conv2 = nn.Conv1d(width, width, 3, dilation=2, groups=2, bias=False)
        self.bn2 = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 4)
        self.bn_head = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        x = F.relu(self.bn2(self.conv2(x)))
        logits: Tensor = self.bn_head(self.head(x.mean(dim=2)))
        return logits


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 3, 32, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
