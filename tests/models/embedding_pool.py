"""A bag of words: embedding with a padding index, masked mean pooling, a linear head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING = 0


class Net(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width, padding_idx=PADDING)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        is_word = (tokens != PADDING).unsqueeze(2).to(torch.float32)
        mean = (self.embedding(tokens) * is_word).sum(dim=1) / is_word.sum(dim=1).clamp(min=1.0)
        logits: Tensor = self.head(mean)
        return logits


def model(vocab: int = 20, width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Net(vocab, width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4, vocab: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, vocab, (batch_size, 7), generator=generator)
    lengths = torch.randint(1, 8, (batch_size, 1), generator=generator)
    tokens = tokens.masked_fill(torch.arange(7) >= lengths, PADDING)
    return tokens, torch.randint(3, (batch_size,), generator=generator)
