"""nn.TransformerEncoder over tokens, some of them padding: in evaluation PyTorch would take a fused operator for it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING = 0


class Net(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, width, padding_idx=PADDING)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        encoded = self.encoder(self.embedding(tokens), src_key_padding_mask=tokens == PADDING)
        logits: Tensor = self.head(encoded[:, 0])
        return logits


def model(width: int = 16, dropout: float = 0.1) -> nn.Module:
    torch.manual_seed(0)
    return Net(width, dropout)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, 20, (batch_size, 6), generator=generator)
    tokens[1::2, 4:] = PADDING
    return tokens, torch.randint(3, (batch_size,), generator=generator)
