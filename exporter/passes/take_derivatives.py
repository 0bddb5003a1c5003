"""Keeps the derivative of an activation function (GELU, SiLU, tanh, ...) for its backward.

That multiplies the gradient by it, so the derivative may be rounded; a function of a rounded input would be biased.
Where nothing else of backward reads the input, it is not kept any more.
"""

from __future__ import annotations

import operator

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.find_saved import mark_phases, storage_root
from daf.exporter.graph import GraphEditor, size_bytes
from daf.exporter.schemes import MIN_ELEMENTS, passes_by_mask

daf = torch.ops.daf


def take_derivatives(program: ExportedProgram) -> None:
    mark_phases(program)
    edit = GraphEditor(program)
    for backward in list(edit.graph.nodes):
        if not reads_derivative(backward):
            continue
        grad, saved, *kind = backward.args
        assert isinstance(saved, Node)
        if size_bytes(saved.meta["val"]) < 4 * MIN_ELEMENTS:  # it is kept as it is
            continue
        # Before the activation's output is there.
        with edit.at(_behind(saved)):
            derivative = edit.call(daf.activation_derivative.default, saved, *kind)
        with edit.at(backward):
            edit.replace(backward, edit.call(daf.activation_backward.default, grad, derivative, "exp", 0.0, 0.0))
    edit.finish()


def reads_derivative(backward: Node) -> bool:
    """Whether it is the backward of an activation function that multiplies by more than a mask."""
    if backward.target is not daf.activation_backward.default or backward.args[2] == "exp":  # is a product already
        return False
    grad, saved = backward.args[:2]
    assert isinstance(grad, Node)
    assert isinstance(saved, Node)
    root = storage_root(saved)
    is_of_forward = root.meta.get("daf_phase") == "forward" and storage_root(grad) is not root
    return is_of_forward and not passes_by_mask(backward, root)


def _behind(node: Node) -> Node:
    """Where all outputs of the operator that made `node` are there."""
    place = node
    while place.next.target is operator.getitem:
        place = place.next
    return place.next
