"""A small convolutional network on scikit-learn's handwritten digits: convolution, batch normalisation, max pooling.

It trains to over 97 % test accuracy in seconds. The data are the 1,797 8x8 pictures of `load_digits`, always split
the same way into 1,437 for training and 360 for testing.

Settings: `width` is the number of channels of the first block; the second has twice as many.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn


class Block(nn.Module):
    """Halves height and width."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)


class DigitsCNN(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.block1 = Block(1, width)
        self.block2 = Block(width, 2 * width)
        self.head = nn.Linear(2 * width * 2 * 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        features = self.block2(self.block1(x))
        logits: Tensor = self.head(features.flatten(1))
        return logits


def model(width: int = 16) -> nn.Module:
    torch.manual_seed(0)
    return DigitsCNN(width)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def dataset(split: str) -> dict[str, Tensor]:
    digits = load_digits()
    x = torch.tensor(digits.images / 16.0, dtype=torch.float32).unsqueeze(1)
    target = torch.tensor(digits.target, dtype=torch.int64)
    train, test = train_test_split(range(len(target)), test_size=360, stratify=target, random_state=0)
    rows = train if split == "train" else test
    return {"x": x[rows], "target": target[rows]}


def batch(batch_size: int = 32) -> tuple[Tensor, Tensor]:
    data = dataset("train")
    rows = torch.arange(batch_size) % len(data["target"])
    return data["x"][rows], data["target"][rows]
