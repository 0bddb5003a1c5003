"""A model file with every kind of layer whose channels can be chosen."""

from __future__ import annotations

from pathlib import Path

from training import AdamW, Export, Options, Sgd, export_program, load_model_file

from daf.exporter.plan_update import Update

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(8, 12, 3, padding=(1, 0), groups=2, bias=not norm)
        self.norm = nn.BatchNorm2d(12) if norm else nn.Identity()
        self.depthwise = nn.Conv2d(12, 24, 3, padding=2, dilation=2, groups=12)
        self.pointwise = nn.Conv2d(24, 16, 1)
        self.hidden = nn.Linear(16, 20)
        self.head = nn.Linear(20, 3)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(self.norm(self.grouped(x)))
        x = F.relu6(self.depthwise(x))
        x = F.relu(self.pointwise(x)).mean((2, 3))
        return self.head(F.relu(self.hidden(x)))


def model(norm: bool = False):
    torch.manual_seed(3)
    net = Net(norm)
    if norm:
        net.norm.weight.data.uniform_(0.5, 1.5)
        net.norm.running_mean.uniform_(-0.1, 0.1)
        net.norm.running_var.uniform_(0.5, 1.5)
    return net


def batch(batch_size: int = 6):
    torch.manual_seed(4)
    return torch.randn(batch_size, 3, 14, 14), torch.arange(batch_size) % 3


def loss(output, target):
    return F.cross_entropy(output, target)
"""

LAYERS = ["stem", "grouped", "depthwise", "pointwise", "hidden"]  # besides the last
CHANNELS = {"stem": 3, "grouped": 4, "depthwise": 12, "pointwise": 24, "hidden": 16}


def export_sparse(
    folder: Path,
    update: Update,
    optimizer: Sgd | AdamW | None = None,
    *,
    norm: bool = False,
    batch_size: int = 6,
    **options: object,
) -> Export:
    path = folder / "net.py"
    path.write_text(SOURCE)
    file = load_model_file(str(path), {"norm": str(norm), "batch_size": str(batch_size)})
    optimizer = optimizer or Sgd(lr=0.05, momentum=0.9)
    return export_program(Options(file, folder / "program.pte", optimizer, update=update, **options))  # type: ignore[arg-type]
