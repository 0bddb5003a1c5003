"""Three inputs of different types: a picture, a category and a mask."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.category = nn.Embedding(5, width)
        self.head = nn.Linear(width, 3)

    def forward(self, picture: Tensor, category: Tensor, visible: Tensor) -> Tensor:
        features = self.conv(torch.where(visible, picture, 0.0)).mean(dim=(2, 3))
        logits: Tensor = self.head(features * torch.sigmoid(self.category(category)))
        return logits


def model(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    picture = torch.randn(batch_size, 1, 5, 5, generator=generator)
    category = torch.randint(5, (batch_size,), generator=generator)
    visible = torch.rand(batch_size, 1, 5, 5, generator=generator) > 0.3
    return picture, category, visible, torch.randint(3, (batch_size,), generator=generator)
