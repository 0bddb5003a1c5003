"""Negative log-likelihood, the second half of cross-entropy."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf


@converts(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["self"]):
        return None
    made = edit.call(daf.nll_loss.default, a["self"], a["target"], a["weight"], a["reduction"], int(a["ignore_index"]))
    return {i: edit.item(made, i) for i in range(2)}


@converts(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["self"]):
        return None
    return edit.call(
        daf.nll_loss_backward.default,
        a["grad_output"],
        a["self"],
        a["target"],
        a["weight"],
        a["total_weight"],
        a["reduction"],
        int(a["ignore_index"]),
    )
