"""A language model whose embedding is also its output head; both uses train the one weight."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.body(self.embedding(tokens))))
        return logits


def model(vocab: int = 20, width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Net(vocab, width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def batch(batch_size: int = 4, vocab: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(vocab, (batch_size, 6), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()
