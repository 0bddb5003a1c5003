"""Removes nodes that only rename a value.

In a functional graph an alias, a clone or a same-shape view is the value itself; lowered, each would be a copy.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import ASSERTIONS, GraphEditor

aten = torch.ops.aten

_ALWAYS: set[Any] = {
    aten.alias.default,
    aten.clone.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.contiguous.default,
}
_WHEN_SAME_SHAPE: set[Any] = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.expand.default,
    aten.slice.Tensor,
}


def remove_noops(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target in ASSERTIONS:
            edit.graph.erase_node(node)
        elif node.op == "call_function" and _is_noop(node):
            edit.replace(node, node.args[0])
        elif node.op == "call_function" and _is_disabled_dropout(node):
            for user in list(node.users):
                if user.args[1] == 0:
                    edit.replace(user, node.args[0])
    edit.finish()


def _is_noop(node: Node) -> bool:
    if node.target in _ALWAYS:
        return True
    if node.target is aten._to_copy.default or node.target is torch.ops.dim_order_ops._to_dim_order_copy.default:
        return bool(node.args[0].meta["val"].dtype == node.meta["val"].dtype)  # type: ignore[union-attr]
    if node.target is aten.constant_pad_nd.default:  # (1, -1) keeps the shape too, and shifts
        return not any(node.args[1])  # type: ignore[arg-type]
    if node.target in _WHEN_SAME_SHAPE:
        before, after = node.args[0].meta["val"].shape, node.meta["val"].shape  # type: ignore[union-attr]
        return len(before) == len(after) and all(bool(a == b) for a, b in zip(before, after, strict=True))
    return False


def _is_disabled_dropout(node: Node) -> bool:
    if node.target is not aten.native_dropout.default:
        return False
    mask_used = any(user.args[1] == 1 and user.users for user in node.users)
    return not mask_used and (bool(node.args[1] == 0.0) or node.args[2] is False)
