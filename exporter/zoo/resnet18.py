"""ResNet-18 for 32x32 pictures (He et al. 2016): the usual CIFAR form, with a 3x3 stem and no first max pooling.

The stand-in for all convolutional classifiers with residual connections. 11.2 M parameters at width 64.

Settings: `width` is the number of channels of the first stage (the others have 2, 4 and 8 times as many),
`num_classes` the number of outputs.

Data: CIFAR-10 (exporter/cifar10.py). Without it the example batch is synthetic: a coloured wave per class, under noise,
so that the loss can fall.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from daf.exporter import cifar10


class BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.shortcut.append(nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._stage(width, width, stride=1)
        self.layer2 = self._stage(width, 2 * width, stride=2)
        self.layer3 = self._stage(2 * width, 4 * width, stride=2)
        self.layer4 = self._stage(4 * width, 8 * width, stride=2)
        self.fc = nn.Linear(8 * width, num_classes)

    @staticmethod
    def _stage(channels_in: int, channels_out: int, stride: int) -> nn.Sequential:
        return nn.Sequential(BasicBlock(channels_in, channels_out, stride), BasicBlock(channels_out, channels_out, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def model(width: int = 64, num_classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return ResNet18(width, num_classes)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def dataset(split: str) -> dict[str, Tensor]:
    x, target = cifar10.load(split, "resnet18")
    return {"x": x, "target": target}


def batch(batch_size: int = 8, num_classes: int = 10) -> tuple[Tensor, Tensor]:
    if cifar10.is_available() and num_classes >= cifar10.CLASSES:
        data = dataset("train")
        rows = torch.arange(batch_size) % len(data["target"])
        return data["x"][rows], data["target"][rows]
    return synthetic_batch(batch_size, num_classes)


def synthetic_batch(batch_size: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """A class is a direction and a colour of a plane wave; the noise is as strong as the wave."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(num_classes, (batch_size,), generator=generator)
    angle = (target * (math.pi / num_classes)).view(-1, 1, 1, 1)
    row, column = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    wave = torch.sin(0.6 * (row * torch.cos(angle) + column * torch.sin(angle)))
    colour = torch.cos(angle + torch.tensor([0.0, 2.0, 4.0]).view(1, 3, 1, 1))
    return wave * colour + torch.randn(batch_size, 3, 32, 32, generator=generator), target
