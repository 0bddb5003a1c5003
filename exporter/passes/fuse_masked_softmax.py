"""Adds an attention's mask while its softmax reads the scores."""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor

aten = torch.ops.aten
daf = torch.ops.daf


def fuse_masked_softmax(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is daf.softmax.default and (found := _masked(node)) is not None:
            with edit.at(node):
                edit.replace(node, edit.call(daf.masked_softmax.default, *found))
    edit.finish()


def _masked(softmax: Node) -> tuple[Node, Node] | None:
    """(scores, mask) of a softmax over the last axis of scores + mask that nobody else reads."""
    total, axis, log = softmax.args
    shape = softmax.meta["val"].shape
    if log or axis != len(shape) - 1 or not isinstance(total, Node) or total.target is not aten.add.Tensor:
        return None
    if len(total.args) != 2 or total.kwargs or len(total.users) != 1 or total.meta.get("daf_role") == "activation":
        return None
    for scores, mask in (total.args, reversed(total.args)):
        if not isinstance(scores, Node) or not isinstance(mask, Node) or scores.meta["val"].shape != shape:
            continue
        if scores.meta["val"].dtype == mask.meta["val"].dtype == torch.float32:
            return scores, mask
    return None
