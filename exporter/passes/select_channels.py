"""Lets a layer train a few of its channels, named by an index that is state of the program.

Forward gathers the chosen channels of the layer's input: that small tensor is what backward needs of it. The gradient
of the weight is then the part that belongs to them.
"""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.layers import Layer

daf = torch.ops.daf


def index_name(parameter: str) -> str:
    return f"{parameter}.index"


def select_channels(program: ExportedProgram, layer: Layer, n_chosen: int) -> None:
    """The index is int64[2, n_chosen]: channels, and the step since which each is chosen."""
    edit = GraphEditor(program)
    gradient, x, channels = layer.gradient, layer.x, layer.channels
    assert channels is not None
    index = edit.add_buffer(index_name(layer.parameter), torch.zeros(2, n_chosen, dtype=torch.int64))
    with edit.at(_after(x)):
        chosen = edit.call(daf.gather_channels.default, x, index, channels.groups, 1)
    if x.op == "call_function":
        chosen.meta.update({key: x.meta[key] for key in ("nn_module_stack", "stack_trace") if key in x.meta})
    args = [chosen if argument is x else argument for argument in gradient.args]
    with edit.at(gradient):
        if gradient.target is daf.convolution_weight_grad.default and channels.axis == 0:
            grad = edit.call(daf.gather_channels.default, args[0], index, 1, channels.block)
            args = [grad, chosen, *args[2:-1], n_chosen]
        part = edit.call(gradient.target, *args)
    edit.replace(gradient, part)
    edit.finish()


def _after(node: Node) -> Node:
    """The first place where `node` is there; inputs of the graph come before all else."""
    place = node.next
    while place.op == "placeholder":
        place = place.next
    return place
