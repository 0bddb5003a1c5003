"""A two-layer perceptron on scikit-learn's handwritten digits: the smallest model that learns something real.

It trains to over 95 % test accuracy in seconds. The data are the 1,797 8x8 pictures of `load_digits`, always split
the same way into 1,437 for training and 360 for testing.

Settings: `width` is the number of hidden units.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn


class DigitsMLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(F.relu(self.hidden(x)))
        return logits


def model(width: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return DigitsMLP(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def dataset(split: str) -> dict[str, Tensor]:
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    target = torch.tensor(digits.target, dtype=torch.int64)
    train, test = train_test_split(range(len(target)), test_size=360, stratify=target, random_state=0)
    rows = train if split == "train" else test
    return {"x": x[rows], "target": target[rows]}


def batch(batch_size: int = 32) -> tuple[Tensor, Tensor]:
    data = dataset("train")
    rows = torch.arange(batch_size) % len(data["target"])
    return data["x"][rows], data["target"][rows]
