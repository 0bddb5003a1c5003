"""nn.MultiheadAttention with dropout: self-attention, then cross-attention from one learned query."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.self_attention = nn.MultiheadAttention(width, 2, dropout=dropout, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, width))
        self.pool = nn.MultiheadAttention(width, 4, bias=False, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        x = x + self.self_attention(h, h, h, need_weights=False)[0]
        pooled = self.pool(self.query.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]
        logits: Tensor = self.head(pooled.squeeze(1))
        return logits


def model(width: int = 16, dropout: float = 0.1) -> nn.Module:
    torch.manual_seed(0)
    return Net(width, dropout)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4, width: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, 6, width, generator=generator)
    return x, torch.randint(3, (batch_size,), generator=generator)
