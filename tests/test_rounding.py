"""What the store may round, and that backward is right on average of what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from training import NoOptimizer, Options, export_program, load_model_file, open_session

from daf.exporter.schemes import MIN_ELEMENTS

MODEL = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(32, 32), nn.Linear(32, 4)
        self.other = nn.Linear(32, 64)
        self.norm = {norm}
        self.slope = nn.Parameter(torch.tensor(0.2))

    def forward(self, x):
        y = self.first(x)
        {forward}

def model():
    torch.manual_seed(0)
    return Net()

def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn({n}, 32, generator=generator), torch.arange({n}) % 4

loss = F.cross_entropy
"""
N_ROUNDINGS = 200

# What backward reads -> (forward after the first layer, layer of normalisation, batch size)
READERS = {
    "a product with a gradient": ("return self.head(y * self.other(x)[:, :32])", "None", 64),
    "a square": ("return self.head(y * y)", "None", 64),
    "a cube": ("return self.head(y ** 3)", "None", 64),
    "a denominator": ("return self.head(x / (3 + y))", "None", 64),
    "a maximum": ("return self.head(y * y.amax(1, keepdim=True))", "None", 64),
    "its sign": ("return self.head(y.abs())", "None", 64),
    "a slope that is trained": ("return self.head(torch.where(y > 0, y, self.slope * y))", "None", 64),
    "celu": ("return self.head(F.celu(y, 0.7))", "None", 64),
    "mish": ("return self.head(F.mish(y))", "None", 64),
    "glu": ("return self.head(F.glu(self.other(y)))", "None", 64),
    "a gate": ("return self.head(torch.sigmoid(y) * torch.tanh(self.other(x)[:, :32]))", "None", 64),
    "unit length": ("return self.head(F.normalize(y))", "None", 64),
    "the mean of squares": ("return self.head(self.norm(y))", "nn.RMSNorm(32)", 1024),
    "statistics of rows": ("return self.head(self.norm(y * 3))", "nn.LayerNorm(32)", 1024),
    "statistics of channels": (
        "return self.head(self.norm(self.other(y).repeat(1, 16) * torch.logspace(-3, 1, 1024))[:, :32])",
        "nn.BatchNorm1d(1024)",
        8,
    ),
}


# Normalisations read a value twice: the squares of its rounding errors are one of n terms of a sum over n.
ALLOWED_BIAS = {"unit length": 0.03, "the mean of squares": 0.03, "statistics of rows": 0.03}
ALLOWED_BIAS["statistics of channels"] = 0.06  # of 8 values each


def is_statistic(node: torch.fx.Node) -> bool:
    return node.meta["val"].dim() == 1


@pytest.mark.parametrize("name", READERS)
def test_gradients_are_right_on_average(name: str, tmp_path: Path) -> None:
    forward, norm, n = READERS[name]
    path = tmp_path / "net.py"
    path.write_text(MODEL.format(forward=forward, norm=norm, n=n))
    file = load_model_file(str(path), {})
    exact = export_program(Options(file, tmp_path / "exact.pte", NoOptimizer()))
    stored = export_program(Options(file, tmp_path / "stored.pte", NoOptimizer(), activations="daf", bits=2))
    batch = [tensor.numpy() for tensor in exact.batch]
    session = open_session(exact)
    session.step(batch)
    expected = {key: value.copy() for key, value in session.outputs().items() if key.startswith("grad:")}
    session, errors = open_session(stored), {key: [] for key in expected}
    for seed in range(N_ROUNDINGS):
        session.set_rounding_seed(seed)
        session.step(batch)
        for key, value in session.outputs().items():
            if key in expected:
                errors[key].append(value - expected[key])
    largest = max(float(np.square(value).sum()) for value in expected.values())
    large = [scheme for scheme in stored.schemes if scheme.activation.raw_bytes > 4 * MIN_ELEMENTS]
    assert large
    assert all(scheme.is_stored for scheme in large), "what backward makes of it alone can be kept instead"
    for key, found in errors.items():
        of_mean, by_chance = np.square(np.mean(found, 0)).sum(), np.var(found, 0).sum() / N_ROUNDINGS
        by_chance *= 1 + 8 / np.sqrt(found[0].size)  # a few numbers may be off by several deviations
        assert of_mean <= by_chance + (1e-6 + ALLOWED_BIAS.get(name, 0) ** 2) * largest, key


def test_statistics_are_kept_as_they_are(tmp_path: Path) -> None:
    """One step with a variance that was rounded to 0 would end a training."""
    file = load_model_file("mobilenet_v2", {"width": "1", "resolution": "32", "batch_size": "8"})
    export = export_program(Options(file, tmp_path / "p.pte", NoOptimizer(), activations="daf"))
    channels = {
        scheme.activation.name: scheme.name for scheme in export.schemes if is_statistic(scheme.activation.node)
    }
    assert len(channels) == 2 * 52
    assert set(channels.values()) == {"keep"}


def test_long_chains_of_elementwise_operators_take_no_longer_than_others(tmp_path: Path) -> None:
    """Of 40 steps that each read the one before twice: whoever looked at every path would never come back."""
    path = tmp_path / "net.py"
    forward = "\n        ".join(
        ["for _ in range(40):", "    y = torch.tanh(y) * 0.1 + y * y.abs()", "return self.head(y)"]
    )
    path.write_text(
        MODEL.format(forward=forward, norm="None", n=64) + "\nloss = lambda y, t: (y.sum(1) - t).abs().mean()"
    )
    file = load_model_file(str(path), {})
    assert export_program(Options(file, tmp_path / "p.pte", NoOptimizer(), activations="daf")).store.entries
