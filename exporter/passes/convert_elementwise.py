"""Replaces float32 arithmetic, permutations and repetitions by the `daf::` operators that do them fast.

The last pass before lowering: those before it know these by their ATen names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.passes.fold_transposes import axes_of

aten = torch.ops.aten
daf = torch.ops.daf

_KINDS: dict[Any, str] = {
    aten.add.Tensor: "add",
    aten.add.Scalar: "add",
    aten.sub.Tensor: "subtract",
    aten.sub.Scalar: "subtract",
    aten.mul.Tensor: "multiply",
    aten.mul.Scalar: "multiply",
    aten.div.Tensor: "divide",
    aten.div.Scalar: "divide",
}


def convert_elementwise(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.op != "call_function" or not _is_float32(node):
            continue
        with edit.at(node):
            replacement = _replacement(edit, node)
        if replacement is not None:
            edit.replace(node, replacement)
    edit.finish()


def _replacement(edit: GraphEditor, node: Node) -> Node | None:
    if node.target in _KINDS and len(node.args) == 2 and not node.kwargs:
        a, b = node.args
        if not _is_float32(a):
            return None
        if isinstance(b, int | float):
            return edit.call(daf.arithmetic_scalar.default, a, float(b), _KINDS[node.target])
        return edit.call(daf.arithmetic.default, a, b, _KINDS[node.target]) if _is_float32(b) else None
    if node.target is aten.permute.default:
        return edit.call(daf.permute.default, node.args[0], axes_of(node))
    if node.target is aten.expand.default:
        return edit.call(daf.expand.default, *node.args[:2])
    return None


def _is_float32(value: object) -> bool:
    if not isinstance(value, Node):
        return False
    tensor = value.meta.get("val")
    return isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32
