"""Joins the backwards of nll_loss and log_softmax: the gradient of the log-probabilities, as large as the logits and
almost all zeros, never exists."""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor

daf = torch.ops.daf


def fuse_cross_entropy(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is not daf.softmax_backward.default:
            continue
        grad, log_p, axis, log = node.args
        if not isinstance(grad, Node) or grad.target is not daf.nll_loss_backward.default or len(grad.users) != 1:
            continue
        if log and axis == 1 and log_p is grad.args[1] and node.meta["val"].dim() == 2:
            with edit.at(node):
                fused = edit.call(daf.cross_entropy_backward.default, *grad.args)
            edit.replace(node, fused)
    edit.finish()
