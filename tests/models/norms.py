"""Layer, group and instance normalisation, with and without trained weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.group = nn.GroupNorm(2, 6)
        self.group_plain = nn.GroupNorm(3, 6, affine=False)
        self.instance = nn.InstanceNorm2d(6)
        self.picture = nn.LayerNorm([6, 5, 5], eps=1e-3)
        self.plain = nn.LayerNorm(30, elementwise_affine=False)
        self.unbiased = nn.LayerNorm(30, bias=False)
        self.head = nn.Linear(30, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.group(self.conv(x))
        x = F.relu(self.picture(self.group_plain(x) + self.instance(x.square())))
        rows = self.unbiased(self.plain(x.permute(0, 2, 1, 3).flatten(2)))
        logits: Tensor = self.head(rows).mean(dim=1)
        return logits


def model() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 3, 5, 5, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
