"""The model of `daf phone demo`: the zoo's ResNet-18, narrow, on real handwritten digits enlarged to 32x32."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from daf.exporter.zoo import cnn_digits, resnet18


def model(width: int = 4) -> nn.Module:
    return resnet18.model(width=width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def dataset(split: str) -> dict[str, Tensor]:
    data = cnn_digits.dataset(split)
    pictures = F.interpolate(data["x"], size=(32, 32), mode="bilinear")
    return {"x": pictures.expand(-1, 3, -1, -1).contiguous(), "target": data["target"]}


def batch(batch_size: int = 64) -> tuple[Tensor, Tensor]:
    data = dataset("train")
    rows = torch.arange(batch_size) % len(data["target"])
    return data["x"][rows], data["target"][rows]
