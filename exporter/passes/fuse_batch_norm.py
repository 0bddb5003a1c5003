"""Makes ReLU and ReLU6 part of the batch normalisation before them, forward and backward."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import output_index

daf = torch.ops.daf

CLAMPS = ("relu", "hardtanh")  # activations that others can do on the way


def fuse_batch_norm(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is daf.activation.default and node.args[1] in CLAMPS:
            _fuse_forward(edit, node)
        elif node.target is daf.batch_norm_backward.default:
            _fuse_backward(edit, node)
    edit.finish()


def _fuse_forward(edit: GraphEditor, activation: Node) -> None:
    y = activation.args[0]
    assert isinstance(y, Node)
    if not is_read_once(y):
        return
    if y.target is daf.batch_norm_eval.default:
        with edit.at(activation):
            fused = edit.call(daf.batch_norm_activation_eval.default, *y.args, *activation.args[1:])
        edit.replace(activation, fused)
        return
    norm = y.args[0]
    if y.target is not operator.getitem or not isinstance(norm, Node) or y.args[1] != 0:
        return
    if norm.target is daf.batch_norm_train.default:
        _replace(edit, norm, daf.batch_norm_activation_train.default, *norm.args, *activation.args[1:])
        edit.replace(activation, activation.args[0])  # type: ignore[arg-type]


def _fuse_backward(edit: GraphEditor, norm: Node) -> None:
    grad = norm.args[0]
    assert isinstance(grad, Node)
    if grad.target is not daf.activation_backward.default or grad.args[2] not in CLAMPS or not is_read_once(grad):
        return
    grad_y, y, *kind = grad.args
    _replace(edit, norm, daf.batch_norm_activation_backward.default, grad_y, y, *norm.args[1:], *kind)


def _replace(edit: GraphEditor, norm: Node, target: Any, *args: Any) -> None:
    """With all its outputs."""
    with edit.at(norm):
        fused = edit.call(target, *args)
        for item in list(norm.users):
            edit.replace(item, edit.item(fused, output_index(item)))
    edit.graph.erase_node(norm)


def is_read_once(node: Node) -> bool:
    """And not kept for backward."""
    return len(node.users) == 1 and node.meta.get("daf_role") != "activation"
