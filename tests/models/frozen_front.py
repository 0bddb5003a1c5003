"""A network whose front is frozen: only the block after it and the head train."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
        self.block = nn.Conv2d(width, width, 3, stride=2)
        self.head = nn.Linear(width, 4)
        self.front.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.block(F.relu(self.front(x))))
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits


def model(width: int = 6) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 3, 7, 7, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
