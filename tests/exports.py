"""What the exporter's tests share: graphs of tiny models after each stage, and ways to look into them."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram
from torch.fx import Node
from training import load_model_file  # first: it silences what torch reports on import

from daf.exporter import ops  # noqa: F401  (defines the operators)
from daf.exporter.capture import capture_predict, capture_training
from daf.exporter.find_saved import find_saved
from daf.exporter.fuse_optimizer import AdamW, Optimizer, Sgd, fuse_optimizer
from daf.exporter.lower import TRAIN, LoweredProgram, lower, to_edge
from daf.exporter.passes.convert_to_daf import convert_to_daf
from daf.exporter.passes.fold_transposes import fold_transposes
from daf.exporter.passes.remove_noops import remove_noops
from daf.exporter.plan_memory import ArenaUse, measure_arena

Loss = Callable[[Any, Tensor], Tensor]


class ConvNet(nn.Module):
    """conv, bn, relu, linear: one of each kind of activation that a CNN keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 6 * 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(F.relu(self.bn(self.conv(x))).flatten(1))
        return logits


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(F.relu(self.hidden(x)))
        return logits


def conv_batch(n: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 2, 6, 6, generator=generator), torch.arange(n) % 3


def mlp_batch(n: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 6, generator=generator), torch.arange(n) % 3


def output_sum(output: Tensor, target: Tensor) -> Tensor:
    """The simplest loss: it adds next to nothing to the graph."""
    return output.sum()


def captured(model: nn.Module, batch: tuple[Tensor, ...], loss: Loss = F.cross_entropy) -> ExportedProgram:
    return capture_training(model, batch, loss, dynamic_batch=False)


def without_noops(model: nn.Module, batch: tuple[Tensor, ...], loss: Loss = F.cross_entropy) -> ExportedProgram:
    program = captured(model, batch, loss)
    remove_noops(program)
    return program


def converted(model: nn.Module, batch: tuple[Tensor, ...], loss: Loss = F.cross_entropy) -> ExportedProgram:
    program = without_noops(model, batch, loss)
    convert_to_daf(program)
    return program


def canonical(model: nn.Module, batch: tuple[Tensor, ...], loss: Loss = F.cross_entropy) -> ExportedProgram:
    program = converted(model, batch, loss)
    fold_transposes(program)
    return program


def copy_of(program: ExportedProgram) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch's own code
        return copy.deepcopy(program)


def fused(program: ExportedProgram, optimizer: Optimizer, activation_bytes: int = 10**12) -> ExportedProgram:
    """A copy in the edge dialect, with the optimizer in it; beside so many activations no gradient is split."""
    program = copy_of(program)
    find_saved(program)  # marks phases and activations
    edge = to_edge(program)
    if isinstance(optimizer, Sgd | AdamW):
        fuse_optimizer(edge, optimizer, activation_bytes)
    return edge


def lowered(edge: ExportedProgram, trained: set[str]) -> LoweredProgram:
    """The training method as the program holds it; a stand-in for `predict` saves the time that capturing it takes."""
    predict = to_edge(capture_predict(nn.ReLU(), (torch.ones(1),), dynamic_batch=False))
    return lower(edge, predict, trained)


@functools.cache
def mlp_graph() -> ExportedProgram:
    """Canonical. Shared: copy it before changing it."""
    return canonical(Mlp(), mlp_batch())


@functools.cache
def resnet_graph(batch_size: int) -> ExportedProgram:
    """resnet18 at width 16, canonical. Shared: copy it before changing it."""
    file = load_model_file("resnet18", {"width": "16", "batch_size": str(batch_size)})
    return canonical(file.make_model(), file.make_batch(), file.loss)


def arena_of(edge: ExportedProgram, trained: set[str]) -> ArenaUse:
    return measure_arena(lowered(edge, trained).methods[TRAIN].graph_module)


# ---- looking into graphs ----------------------------------------------------------------------------------------


def calls(program: ExportedProgram, *targets: Any) -> list[Node]:
    """The calls of some operators, in order."""
    return [node for node in program.graph.nodes if node.op == "call_function" and node.target in targets]


def operators(program: ExportedProgram) -> list[str]:
    """Names of all operators called, in order: `aten::relu`, `daf::gemm`."""
    return [
        node.target._schema.name
        for node in program.graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    ]
