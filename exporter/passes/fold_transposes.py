"""Lets `daf::gemm` read transposed operands as they lie.

`permute_copy` of a weight would copy all of it; the product has a flag for it instead.
"""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor

aten = torch.ops.aten
daf = torch.ops.daf


def fold_transposes(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is aten.permute.default:
            _join_permutes(edit, node)
    for node in list(edit.graph.nodes):
        if node.target is daf.gemm.default:
            _fold_operand(node, operand=0, flag=3)
            _fold_operand(node, operand=1, flag=4)
    edit.finish()


def axes_of(node: Node) -> list[int]:
    axes: list[int] = list(node.args[1])  # type: ignore[arg-type]
    return [axis % len(axes) for axis in axes]


def _join_permutes(edit: GraphEditor, node: Node) -> None:
    """permute(permute(x)) is one permute, or x itself."""
    source = node.args[0]
    axes = axes_of(node)
    if isinstance(source, Node) and source.target is aten.permute.default:
        inner = axes_of(source)
        axes = [inner[axis] for axis in axes]
        node.args = (source.args[0], axes)
    if axes == list(range(len(axes))):
        edit.replace(node, node.args[0])  # type: ignore[arg-type]


def _fold_operand(gemm: Node, operand: int, flag: int) -> None:
    source = gemm.args[operand]
    if not isinstance(source, Node) or source.target is not aten.permute.default:
        return
    swapped = list(range(len(axes_of(source))))
    swapped[-1], swapped[-2] = swapped[-2], swapped[-1]
    if axes_of(source) == swapped:
        args = list(gemm.args)
        args[operand] = source.args[0]
        args[flag] = not args[flag]
        gemm.args = tuple(args)
