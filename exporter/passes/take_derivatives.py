"""Computes in forward what backward would make of forward's values alone, where that can be rounded and they cannot.

The backward of an activation function multiplies the gradient by its derivative, which may be rounded; what it would
make of a rounded input would be biased. The same goes for what PyTorch takes apart, as Mish and GLU. Of a comparison,
as PReLU has it, the outcome takes a byte. Where nothing else of backward reads the input, it is not kept any more.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Graph, Node

from daf.exporter.find_saved import is_view, mark_phases, storage_root
from daf.exporter.graph import GraphEditor, size_bytes
from daf.exporter.rounding import may_be_rounded
from daf.exporter.schemes import CAREFUL_BITS, MIN_ELEMENTS, backward_readers, passes_by_mask

aten = torch.ops.aten
daf = torch.ops.daf

# Beside those that PyTorch calls pointwise: they make no more elements than they read, or none of their own.
_ELEMENTWISE = {
    aten._to_copy.default,
    aten.full.default,
    aten.full_like.default,
    aten.slice.Tensor,
    daf.activation.default,
    daf.activation_derivative.default,
}


def take_derivatives(program: ExportedProgram) -> None:
    mark_phases(program)
    edit = GraphEditor(program)
    pure = _pure_nodes(edit.graph)
    for node in list(edit.graph.nodes):
        if reads_derivative(node) and node.args[1] in pure and _is_large(node.args[1]):
            pure.add(_split(edit, node))
    for node in list(edit.graph.nodes):
        if node.meta.get("daf_phase") == "forward" and not is_view(node) and _is_large(node):
            _compute_in_forward(node, pure)
    edit.finish()


def reads_derivative(backward: Node) -> bool:
    """Whether it is the backward of an activation function that multiplies by more than a mask."""
    if backward.target is not daf.activation_backward.default or backward.args[2] == "exp":  # is a product already
        return False
    grad, saved = backward.args[:2]
    assert isinstance(grad, Node)
    assert isinstance(saved, Node)
    root = storage_root(saved)
    return storage_root(grad) is not root and not passes_by_mask(backward, root)


def _is_large(node: object) -> bool:
    """Otherwise it is kept as it is."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.numel() >= MIN_ELEMENTS


def _pure_nodes(graph: Graph) -> set[Node]:
    """Inputs, nodes of forward, and what backward makes of these element by element, without a gradient."""
    pure: set[Node] = set()
    for node in graph.nodes:
        is_of_backward = node.op == "call_function" and node.meta["daf_phase"] == "backward"
        if not is_of_backward or (_is_elementwise(node) and pure.issuperset(node.all_input_nodes)):
            pure.add(node)
    return pure


def _is_elementwise(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return node.target in _ELEMENTWISE or is_view(node) or torch.Tag.pointwise in tags


def _split(edit: GraphEditor, backward: Node) -> Node:
    """Into the derivative, which it returns, and the product with it."""
    grad, saved, *kind = backward.args
    with edit.at(backward):
        derivative = edit.call(daf.activation_derivative.default, saved, *kind)
        edit.replace(backward, edit.call(daf.activation_backward.default, grad, derivative, "exp", 0.0, 0.0))
    return derivative


def _compute_in_forward(saved: Node, pure: set[Node]) -> None:
    """All that backward makes of `saved` and the like without a gradient, if that leaves less to keep."""
    if may_be_rounded(saved, lambda reader: passes_by_mask(reader, saved)):
        return
    made = _made_of(saved, pure)
    if not may_be_rounded(saved, lambda reader: reader in made or passes_by_mask(reader, saved)):
        return
    results = [node for node in made if any(user not in made for user in node.users)]
    stays = any(reader not in made and not passes_by_mask(reader, saved) for reader in backward_readers(saved))
    kept = sum(map(_kept_bytes, results)) + (_rounded_bytes(saved) if stays else 0)
    if results and kept < size_bytes(saved.meta["val"]):
        for node in sorted(_of_backward(results)):
            _move(node, max(node.all_input_nodes, default=saved))


def _made_of(saved: Node, pure: set[Node]) -> set[Node]:
    """The pure nodes of backward that read it, or what others of these made of it."""
    found: set[Node] = set()
    waiting = list(backward_readers(saved))
    while waiting:
        node = waiting.pop()
        if node in pure and node not in found and node.op == "call_function":
            found.add(node)
            waiting += node.users
    return found


def _kept_bytes(result: Node) -> int:
    is_floats = result.meta["val"].dtype == torch.float32
    return _rounded_bytes(result) if is_floats and may_be_rounded(result) else size_bytes(result.meta["val"])


def _rounded_bytes(node: Node) -> int:
    return int(node.meta["val"].numel()) * CAREFUL_BITS // 8


def _of_backward(results: Iterable[Node]) -> set[Node]:
    """The nodes of backward that `results` are made by."""
    found: set[Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node not in found and node.meta.get("daf_phase") == "backward":
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _move(node: Node, last: Node) -> None:
    """Behind its last input, and all outputs of the operator that made that."""
    while last.op == "placeholder" or (last.next.target is operator.getitem and last.next.args[0] is last.args[0]):
        last = last.next
    last.append(node)
    node.meta["daf_phase"] = "forward"
