"""Puts the backward of SiLU together again, which PyTorch takes apart whatever the table of decompositions says.

grad * (sigmoid(x) * (1 + x * (1 - sigmoid(x))))
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor, is_ones

aten = torch.ops.aten
daf = torch.ops.daf


def fuse_silu_backward(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is not aten.mul.Tensor:
            continue
        grad, slope = node.args
        x = _input_of_silu(slope)
        if isinstance(grad, Node) and x is not None:
            with edit.at(node):
                whole = edit.call(daf.activation_backward.default, grad, x, "silu", 0.0, 0.0)
            edit.replace(node, whole)
    edit.finish()


def _input_of_silu(slope: object) -> Node | None:
    """x, if `slope` is the derivative of SiLU there."""
    sigmoid, factor = _args(slope, aten.mul.Tensor)
    product, one = _args(factor, aten.add.Scalar)
    x, complement = _args(product, aten.mul.Tensor)
    ones, same = _args(complement, aten.sub.Tensor)
    if not isinstance(sigmoid, Node) or same is not sigmoid or one != 1 or not is_ones(ones):
        return None
    is_sigmoid = sigmoid.target is daf.activation.default and sigmoid.args[:2] == (x, "sigmoid")
    return x if is_sigmoid and isinstance(x, Node) else None


def _args(node: object, target: Any) -> tuple[object, object]:
    """Of an operator with two arguments."""
    if isinstance(node, Node) and node.target is target and len(node.args) == 2 and not node.kwargs:
        return node.args[0], node.args[1]
    return None, None
