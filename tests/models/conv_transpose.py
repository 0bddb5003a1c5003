"""Transposed convolutions: stride, output padding, dilation, groups, with and without bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2, 6, 3, stride=2, padding=1, output_padding=1)
        self.grouped = nn.ConvTranspose2d(6, 9, (2, 3), stride=(1, 2), padding=(0, 1), groups=3)
        self.dilated = nn.ConvTranspose2d(9, 1, 3, padding=2, dilation=2, output_padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.grouped(F.relu(self.up(x))))
        picture: Tensor = self.dilated(x)
        return picture


def model() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target)


def batch(batch_size: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 2, 5, 4, generator=generator)
    return x, torch.randn(batch_size, 1, 12, 16, generator=generator)
