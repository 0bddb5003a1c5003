"""Dropout in two places."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int, p: float) -> None:
        super().__init__()
        self.hidden1 = nn.Linear(8, width)
        self.hidden2 = nn.Linear(width, width)
        self.head = nn.Linear(width, 4)
        self.drop = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(F.relu(self.hidden1(x)))
        x = F.dropout(F.relu(self.hidden2(x)), 0.3, self.training)
        logits: Tensor = self.head(x)
        return logits


def model(width: int = 32, p: float = 0.3) -> nn.Module:
    torch.manual_seed(0)
    return Net(width, p)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 8, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
