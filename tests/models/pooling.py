"""Average, adaptive average and max pooling with padding, overlap, ceiling and uneven windows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.head = nn.Linear(width * (3 * 2 + 2 * 2), 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
        smooth = F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)
        smooth = F.avg_pool2d(smooth, (1, 2), stride=1, ceil_mode=True)
        sharp = F.max_pool2d(x, (2, 3), stride=(2, 1), dilation=(1, 2))
        features = [F.adaptive_avg_pool2d(smooth, (3, 2)), F.adaptive_avg_pool2d(sharp, 2)]
        logits: Tensor = self.head(torch.cat([f.flatten(1) for f in features], dim=1))
        return logits


def model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 2, 14, 17, generator=generator)
    return x, torch.randint(4, (batch_size,), generator=generator)
