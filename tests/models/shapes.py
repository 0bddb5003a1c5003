"""Shape work: residual, concatenation, slicing, split, stack, permute, broadcasting, reductions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.gain = nn.Parameter(torch.randn(4, 1, 1))
        self.row_bias = nn.Parameter(torch.randn(6))
        self.mix = nn.Linear(6, 6)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.conv(x) * self.gain + self.row_bias
        narrow, wide = torch.split(x, [1, 3], dim=1)
        x = torch.cat([wide, narrow.square(), x[:, 1:4:2]], dim=1)
        x = self.mix(x.permute(0, 2, 3, 1))
        first, second = x.unbind(dim=2)[0], x.select(2, -1)
        joined = torch.stack([first, second, first * second], dim=1).flatten(1, 2)
        spread = joined - joined.amax(dim=1, keepdim=True) + joined.std(dim=1, keepdim=True)
        parts = [spread.mean(dim=1), spread[:, :1, 0].abs()]
        logits: Tensor = self.head(torch.cat(parts, dim=1))
        return logits


def model() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 4, 5, 6, generator=generator)
    return x, torch.randint(3, (batch_size,), generator=generator)
