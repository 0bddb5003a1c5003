"""A picture-to-picture model: cross-entropy over the pixels, with an ignored label."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORED = 255


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(width, 3, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.up(F.relu(self.down(x)))
        return logits


def model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, ignore_index=IGNORED)


def batch(batch_size: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 1, 6, 8, generator=generator)
    target = torch.randint(3, (batch_size, 6, 8), generator=generator)
    target[:, 0, :2] = IGNORED
    return x, target
