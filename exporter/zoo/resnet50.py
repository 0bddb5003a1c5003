"""ResNet-50 (He et al. 2016) for pictures of 224x224, with the usual stem: a 7x7 convolution and max pooling.

What papers on memory measure themselves with. 23.5 M parameters at width 64 and 10 classes.

Settings: `width` is the number of channels of the first stage before its blocks widen them four times, `resolution`
the size of the pictures, `num_classes` the number of outputs.

Data: the example batch is synthetic, a coloured wave per class under noise, so that the loss can fall.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4
N_BLOCKS = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        channels_out = EXPANSION * channels
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.downsample = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.downsample.append(nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + self.downsample(x))


class ResNet50(nn.Module):
    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        stages = []
        channels_in = width
        for i, n_blocks in enumerate(N_BLOCKS):
            channels = width << i
            blocks = [Bottleneck(channels_in, channels, 1 if i == 0 else 2)]
            channels_in = EXPANSION * channels
            blocks += [Bottleneck(channels_in, channels, 1) for _ in range(n_blocks - 1)]
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(channels_in, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def model(width: int = 64, num_classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return ResNet50(width, num_classes)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 8, resolution: int = 224, num_classes: int = 10) -> tuple[Tensor, Tensor]:
    """A class is a direction and a colour of a plane wave; the noise is as strong as the wave."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(num_classes, (batch_size,), generator=generator)
    angle = (target * (math.pi / num_classes)).view(-1, 1, 1, 1)
    row, column = torch.meshgrid(torch.arange(float(resolution)), torch.arange(float(resolution)), indexing="ij")
    wave = torch.sin(0.3 * (row * torch.cos(angle) + column * torch.sin(angle)))
    colour = torch.cos(angle + torch.tensor([0.0, 2.0, 4.0]).view(1, 3, 1, 1))
    return wave * colour + torch.randn(batch_size, 3, resolution, resolution, generator=generator), target
