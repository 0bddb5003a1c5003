"""The layers of a training graph: weights of two or more axes, in the order in which forward uses them.

A layer whose weight gradient is a product with its input can train a part of its channels. Of an ordinary or grouped
convolution and a linear layer these are input channels, so that only they have to be kept for backward; of a depthwise
convolution, where each group has one, the groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from daf.exporter.find_saved import mark_phases
from daf.exporter.graph import gradients, inputs_of_kind

daf = torch.ops.daf


@dataclass(frozen=True)
class Channels:
    """How the channels lie in a weight: `n` runs of `block` entries along `axis`, for each of `groups` in the input."""

    n: int
    axis: int
    block: int = 1
    groups: int = 1


@dataclass(frozen=True)
class Layer:
    name: str  # of its module
    parameter: str
    position: int  # in the graph, of its first use
    n_elements: int
    gradient: Node
    input_operand: int | None = None  # of the gradient, where channels can be chosen
    channels: Channels | None = None

    @property
    def x(self) -> Node:
        assert self.input_operand is not None
        x = self.gradient.args[self.input_operand]
        assert isinstance(x, Node)
        return x

    @property
    def slice_elements(self) -> int:
        """Weights of one channel."""
        assert self.channels is not None
        return self.n_elements // self.channels.n


def find_layers(program: ExportedProgram) -> list[Layer]:
    """Only those that train."""
    mark_phases(program)
    positions = parameter_positions(program)
    layers = []
    for parameter, gradient in gradients(program).items():
        shape = [int(size) for size in gradient.meta["val"].shape]
        if len(shape) < 2:
            continue
        operand, channels = _selectable(gradient)
        n_elements = int(torch.Size(shape).numel())
        name = parameter.removesuffix(".weight")
        layers.append(Layer(name, parameter, positions[parameter], n_elements, gradient, operand, channels))
    return sorted(layers, key=lambda layer: layer.position)


def parameter_positions(program: ExportedProgram) -> dict[str, int]:
    """Where in the graph each parameter is first used."""
    order = {node: i for i, node in enumerate(program.graph.nodes)}
    return {
        name: min((order[user] for user in node.users), default=order[node])
        for name, node in inputs_of_kind(program, InputKind.PARAMETER).items()
    }


def _selectable(gradient: Node) -> tuple[int | None, Channels | None]:
    shape = gradient.meta["val"].shape
    if gradient.target is daf.convolution_weight_grad.default:
        grad, x, *_, groups = gradient.args
        assert isinstance(groups, int)
        if isinstance(x, Node) and isinstance(grad, Node) and _is_layer(grad, x):
            if shape[1] == 1 and groups > 1:
                return 1, Channels(groups, axis=0, block=int(shape[0]) // groups)
            return 1, Channels(int(shape[1]), axis=1, groups=groups)
    if gradient.target is daf.gemm.default and gradient.args[2:] == (None, True, False) and len(shape) == 2:
        a, b = gradient.args[:2]
        assert isinstance(a, Node)
        assert isinstance(b, Node)
        if _is_layer(a, b):
            return 1, Channels(int(shape[1]), axis=1)
        if _is_layer(b, a):  # weights that lie transposed
            return 0, Channels(int(shape[0]), axis=0)
    return None, None


def _is_layer(grad: Node, x: Node) -> bool:
    """Of a transposed convolution they change places."""
    return grad.meta.get("daf_phase") == "backward" and x.meta.get("daf_phase") != "backward"
