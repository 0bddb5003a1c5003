"""Phase 4, find saved activations: forward values that backward reads."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import loss_node, module_path, size_bytes

aten = torch.ops.aten

# Views: they share the storage of their first argument, so the storage is saved once, under its root.
_VIEWS = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.dims,
    aten.squeeze.dim,
}


@dataclass(frozen=True)
class SavedActivation:
    """A forward value that stays in memory until backward has read it."""

    node: Node
    module: str
    raw_bytes: int

    @property
    def name(self) -> str:
        return self.node.name


def mark_phases(program: ExportedProgram) -> None:
    """Sets meta["daf_phase"] of every node: backward is what comes behind the loss.

    Also what does not depend on the gradient of the loss, as the derivative of an activation function: as a part of
    forward, it would be kept beside what it is computed from. Further outputs of the loss's own operator are forward,
    but for a gradient.
    """
    loss, phase = loss_node(program), "forward"
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        source = node.args[0] if node.target is operator.getitem else None
        node.meta["daf_phase"] = source.meta["daf_phase"] if isinstance(source, Node) else phase
        if node is loss:
            phase = "backward"
        elif isinstance(source, Node) and source.target is torch.ops.daf.cross_entropy.default:
            node.meta["daf_phase"] = "backward"


def find_saved(program: ExportedProgram) -> list[SavedActivation]:
    """In the order in which forward makes them. Data inputs, weights and the loss are not activations."""
    mark_phases(program)
    loss = loss_node(program)
    saved: dict[Node, None] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.meta["daf_phase"] == "forward" and _is_read_by_backward(node):
            root = storage_root(node)
            if root.op == "call_function" and root is not loss and _is_tensor(root):
                saved[root] = None
    order = {node: i for i, node in enumerate(program.graph.nodes)}
    for node in saved:
        node.meta["daf_role"] = "activation"
    return [
        SavedActivation(node, module_path(node), size_bytes(node.meta["val"]))
        for node in sorted(saved, key=order.__getitem__)
    ]


def is_view(node: Node) -> bool:
    return node.op == "call_function" and node.target in _VIEWS


def storage_root(node: Node) -> Node:
    while is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _is_read_by_backward(node: Node) -> bool:
    return any(user.meta.get("daf_phase") == "backward" for user in node.users if user.op == "call_function")


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
