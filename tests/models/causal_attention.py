"""A one-layer causal language model on scaled_dot_product_attention(is_causal=True)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, vocab: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(6, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        logits: Tensor = self.head(x + self.out(attended.transpose(1, 2).flatten(2)))
        return logits


def model(vocab: int = 20, width: int = 16, heads: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return Net(vocab, width, heads)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def batch(batch_size: int = 4, vocab: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(vocab, (batch_size, 7), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()
