"""Tensors made from nothing."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, converts

aten = torch.ops.aten


@converts(aten.scalar_tensor.default)
def scalar_tensor(edit: GraphEditor, node: Node) -> Replacement:
    """ExecuTorch has a kernel for `full` of every type, and only that one."""
    return edit.call(aten.full.default, [], node.args[0], dtype=node.meta["val"].dtype)


@converts(aten.empty_permuted.default, aten.empty.memory_format)
def uninitialized(edit: GraphEditor, node: Node) -> Replacement:
    """Only its shape is used (by full_like and the like)."""
    return edit.call(aten.full.default, node.args[0], 0, dtype=node.meta["val"].dtype)
