"""Keeps one tensor for the gate of a gated unit, f(gate) * up, instead of two.

The gradient of the gate is grad * up * f'(gate): of both together, forward keeps the product up * f'(gate). (What f
makes of the gate is kept too, for the gradient of `up`.) One rounded factor also has a smaller error than two.
"""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.find_saved import mark_phases, storage_root
from daf.exporter.graph import GraphEditor
from daf.exporter.passes.take_derivatives import reads_derivative
from daf.exporter.schemes import backward_readers

aten = torch.ops.aten
daf = torch.ops.daf


def fold_gates(program: ExportedProgram) -> None:
    mark_phases(program)
    edit = GraphEditor(program)
    order = {node: i for i, node in enumerate(edit.graph.nodes)}
    for backward in list(edit.graph.nodes):
        if backward.target is not daf.activation_backward.default or (found := _factors(backward)) is None:
            continue
        grad, up = found
        gate, *kind = backward.args[1:]
        assert isinstance(gate, Node)
        with edit.at(max(gate, up, key=order.__getitem__).next):
            slope = edit.call(daf.activation_derivative.default, gate, *kind)
            product = edit.call(aten.mul.Tensor, slope, up)
        with edit.at(backward):
            edit.replace(backward, edit.call(daf.activation_backward.default, grad, product, "exp", 0.0, 0.0))
    edit.finish()


def _factors(backward: Node) -> tuple[Node, Node] | None:
    """(grad, up) where an activation's backward gets grad * up, and nothing else of backward reads `up` or the gate."""
    product, gate = backward.args[:2]
    assert isinstance(product, Node)
    assert isinstance(gate, Node)
    root = storage_root(gate)
    if not reads_derivative(backward) or root.meta.get("daf_phase") != "forward":
        return None
    if product.target is not aten.mul.Tensor or len(product.users) != 1 or list(backward_readers(root)) != [backward]:
        return None
    for grad, up in (product.args, reversed(product.args)):
        if not isinstance(grad, Node) or not isinstance(up, Node) or up.meta.get("daf_phase") != "forward":
            continue
        shapes = {node.meta["val"].shape for node in (grad, up, gate)}
        if grad.meta.get("daf_phase") == "backward" and len(shapes) == 1:
            return (grad, up) if list(backward_readers(storage_root(up))) == [product] else None
    return None
