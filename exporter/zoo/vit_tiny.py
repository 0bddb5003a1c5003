"""A vision transformer (Dosovitskiy et al. 2021), in the Tiny size of DeiT: 5.5 M parameters.

The stand-in for attention on pictures: patch embedding, class token, learned positions, blocks that normalise first.

Settings: `image_size` is the height and width of a picture in pixels, `patch` those of a patch, `layers` the number of
blocks, `width` the size of a token, `heads` the number of attention heads, `num_classes` the number of outputs.

The example batch is synthetic: a coloured wave per class, under noise, so that the loss can fall.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        # [batch, token, width] -> query, key, value, each [batch, head, token, width / heads]
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, 2))
        weights = F.softmax((query @ key.transpose(2, 3)) * self.scale, dim=3)
        y: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class VisionTransformer(nn.Module):
    def __init__(self, image_size: int, patch: int, layers: int, width: int, heads: int, num_classes: int) -> None:
        super().__init__()
        n_tokens = (image_size // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, n_tokens, width), std=0.02))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(x.shape[0], -1, -1), patches], dim=1) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


def model(
    image_size: int = 224, patch: int = 16, layers: int = 12, width: int = 192, heads: int = 3, num_classes: int = 10
) -> nn.Module:
    torch.manual_seed(0)
    return VisionTransformer(image_size, patch, layers, width, heads, num_classes)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def batch(batch_size: int = 8, image_size: int = 224, num_classes: int = 10) -> tuple[Tensor, Tensor]:
    """A class is a direction and a colour of a plane wave; the noise is as strong as the wave."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(num_classes, (batch_size,), generator=generator)
    angle = (target * (math.pi / num_classes)).view(-1, 1, 1, 1)
    row, column = torch.meshgrid(torch.arange(float(image_size)), torch.arange(float(image_size)), indexing="ij")
    wave = torch.sin(0.3 * (row * torch.cos(angle) + column * torch.sin(angle)))
    colour = torch.cos(angle + torch.tensor([0.0, 2.0, 4.0]).view(1, 3, 1, 1))
    return wave * colour + torch.randn(batch_size, 3, image_size, image_size, generator=generator), target
