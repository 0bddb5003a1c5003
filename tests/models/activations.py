"""Every common activation function, each after its own linear layer, in a residual chain."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def activations() -> dict[str, nn.Module]:
    return {
        "relu": nn.ReLU(),
        "relu_inplace": nn.ReLU(inplace=True),
        "relu6": nn.ReLU6(),
        "leaky_relu": nn.LeakyReLU(0.1),
        "elu": nn.ELU(),
        "selu": nn.SELU(),
        "celu": nn.CELU(0.5),
        "gelu": nn.GELU(),
        "gelu_tanh": nn.GELU(approximate="tanh"),
        "silu": nn.SiLU(),
        "sigmoid": nn.Sigmoid(),
        "tanh": nn.Tanh(),
        "hardswish": nn.Hardswish(),
        "softplus": nn.Softplus(),
        "mish": nn.Mish(),
    }


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        layers = {name: nn.Sequential(nn.Linear(width, width), function) for name, function in activations().items()}
        self.layers = nn.ModuleDict(layers)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values():
            x = x + layer(x)
        logits: Tensor = self.head(x)
        return logits


def model(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Net(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 4, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = 3 * torch.randn(batch_size, width, generator=generator)
    return x, torch.randint(3, (batch_size,), generator=generator)
