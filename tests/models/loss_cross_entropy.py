"""Cross-entropy with class weights, an ignored label and label smoothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORED = -100
CLASS_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 1.5])


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, weight=CLASS_WEIGHTS, ignore_index=IGNORED, label_smoothing=0.1)


def batch(batch_size: int = 6, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch_size, width, generator=generator)
    return x, torch.tensor([0, 3, IGNORED, 1, 2, 3])[torch.arange(batch_size) % 6]
