"""Batch normalisation: without weights, without running statistics, frozen in eval mode, with another momentum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.plain = nn.BatchNorm2d(width, affine=False)
        self.untracked = nn.BatchNorm2d(width, track_running_stats=False)
        self.frozen = nn.BatchNorm2d(width)
        self.slow = nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)
        self.head = nn.Linear(width, 4)
        self.frozen.running_mean = torch.linspace(-1, 1, width)
        self.frozen.running_var = torch.linspace(0.5, 2, width)

    def train(self, mode: bool = True) -> Net:
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.plain(self.conv(x)))
        x = F.relu(self.frozen(self.untracked(x)))
        logits: Tensor = self.head(self.slow(x).mean(dim=(2, 3)))
        return logits


def model(width: int = 5) -> nn.Module:
    torch.manual_seed(0)
    return Net(width).train()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 3, 6, 6, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
