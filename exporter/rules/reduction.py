"""Sums and means over axes."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf


@converts(aten.sum.dim_IntList, aten.mean.dim, aten.sum.default, aten.mean.default)
def sum_axes(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    x = a["self"]
    n_axes = x.meta["val"].dim()
    if not is_float32(node, x) or n_axes == 0:
        return None
    axes = sorted(axis % n_axes for axis in a.get("dim") or range(n_axes))
    mean = node.target in (aten.mean.dim, aten.mean.default)
    return edit.call(daf.sum_axes.default, x, axes, bool(a.get("keepdim", False)), mean)
