"""Makes ReLU and ReLU6 part of the matrix product or the sum before them."""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.passes.fuse_batch_norm import CLAMPS, is_read_once

aten = torch.ops.aten
daf = torch.ops.daf


def fuse_activation(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is daf.activation.default and node.args[1] in CLAMPS:
            with edit.at(node):
                fused = _after_product(edit, node) or _after_sum(edit, node)
            if fused is not None:
                edit.replace(node, fused)
    edit.finish()


def _after_product(edit: GraphEditor, activation: Node) -> Node | None:
    """Of the product itself, or of one view of it."""
    source = activation.args[0]
    assert isinstance(source, Node)
    view = source if source.target is aten.view.default else None
    product = source if view is None else view.args[0]
    assert isinstance(product, Node)
    if product.target is not daf.gemm.default or product.meta["val"].dim() != 2:
        return None
    if not is_read_once(source) or not is_read_once(product):
        return None
    fused = edit.call(daf.gemm_activation.default, *product.args, *activation.args[1:])
    return fused if view is None else edit.call(aten.view.default, fused, view.args[1])


def _after_sum(edit: GraphEditor, activation: Node) -> Node | None:
    total = activation.args[0]
    assert isinstance(total, Node)
    if total.target is not aten.add.Tensor or len(total.args) != 2 or total.kwargs or not is_read_once(total):
        return None
    for term in total.args:
        if not isinstance(term, Node) or term.meta["val"].dtype != torch.float32:
            return None
        if term.meta["val"].shape != total.meta["val"].shape:
            return None
    return edit.call(daf.add_activation.default, *total.args, *activation.args[1:])
