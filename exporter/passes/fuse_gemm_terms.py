"""Lets a matrix product scale its result and add to it, instead of passing over it again.

Factors of a product's result and of its operands become its `alpha`; an addition to a product of matrices becomes its
`addend`. Only what nobody else reads is fused.
"""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor

aten = torch.ops.aten
daf = torch.ops.daf

_PRODUCTS = {daf.gemm.default, daf.gemm_add.default, daf.batch_gemm.default}


def fuse_gemm_terms(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if _is_scaling(node):
            _fold_into_readers(edit, node) or _fold_into_source(edit, node)
    order = {node: i for i, node in enumerate(edit.graph.nodes)}
    for node in list(edit.graph.nodes):
        if _is_sum(node):
            _fold_sum(edit, node, order)
    edit.finish()


def _is_scaling(node: Node) -> bool:
    """x * number"""
    return (
        node.target in (aten.mul.Tensor, aten.mul.Scalar)
        and isinstance(node.args[0], Node)
        and isinstance(node.args[1], int | float)
        and node.meta["val"].dtype == torch.float32
    )


def _is_sum(node: Node) -> bool:
    """a + b of one shape"""
    if node.target is not aten.add.Tensor or node.kwargs:
        return False
    a, b = node.args[:2]
    if len(node.args) != 2 or not isinstance(a, Node) or not isinstance(b, Node):
        return False
    values = [n.meta["val"] for n in (node, a, b)]
    return all(v.dtype == torch.float32 and v.shape == values[0].shape for v in values)


def _fold_into_readers(edit: GraphEditor, scaling: Node) -> bool:
    """When all that read the scaled value, through views too, are products: they scale."""
    readers: list[Node] = []
    pending = [scaling]
    while pending:
        node = pending.pop()
        for user in node.users:
            if user.target is aten.view.default:
                pending.append(user)
            elif user.target in _PRODUCTS and node in user.args[:2]:
                readers.append(user)
            else:
                return False
    if not readers or scaling.meta.get("daf_role") == "activation":
        return False
    source, factor = scaling.args
    for reader in readers:
        _scale(reader, float(factor))  # type: ignore[arg-type]
    edit.replace(scaling, source)  # type: ignore[arg-type]
    return True


def _fold_into_source(edit: GraphEditor, scaling: Node) -> bool:
    """When the scaled value is a product that has no other reader: it scales itself."""
    source, factor = scaling.args
    chain = _lone_product(source)
    if not chain or _bias(chain[-1]) is not None:
        return False
    _scale(chain[-1], float(factor))  # type: ignore[arg-type]
    edit.replace(scaling, source)  # type: ignore[arg-type]
    return True


def _fold_sum(edit: GraphEditor, total: Node, order: dict[Node, int]) -> None:
    sources = [node for node in total.args if isinstance(node, Node)]
    products = [
        (chain, other)
        for node, other in zip(sources, reversed(sources), strict=True)
        if (chain := _lone_product(node))
        and chain[-1].target in (daf.gemm.default, daf.gemm_add.default)
        and _addend(chain[-1]) is None
        and node is not other
    ]
    # The one that is made last: it waits for nothing but the addition.
    for chain, other in sorted(products, key=lambda item: order.get(item[0][-1], -1), reverse=True):
        product = chain[-1]
        columns = product.meta["val"].shape[-1]
        if len(product.meta["val"].shape) != 2 or not isinstance(columns, int):
            continue
        if len(chain) > 1 and not other.meta["val"].is_contiguous():
            continue
        a, b, bias, _, transpose_a, transpose_b, alpha = _gemm_add_args(product)
        with edit.at(total):
            addend = other if len(chain) == 1 else edit.call(aten.view.default, other, [-1, columns])
            result = edit.call(daf.gemm_add.default, a, b, bias, addend, transpose_a, transpose_b, alpha)
            for view in reversed(chain[:-1]):
                result = edit.call(aten.view.default, result, view.args[1])
        order[result] = order[total]
        edit.replace(total, result)
        for node in chain:
            edit.graph.erase_node(node)
        return


def _lone_product(node: object) -> list[Node]:
    """[views of it, outermost first ..., a product], each read once and not kept for backward; otherwise empty."""
    chain: list[Node] = []
    while isinstance(node, Node) and len(node.users) == 1 and node.meta.get("daf_role") != "activation":
        chain.append(node)
        if node.target in _PRODUCTS:
            return chain
        if node.target is not aten.view.default:
            break
        node = node.args[0]
    return []


def _gemm_add_args(product: Node) -> tuple[object, ...]:
    if product.target is daf.gemm_add.default:
        return product.args
    a, b, bias, transpose_a, transpose_b = product.args
    return (a, b, bias, None, transpose_a, transpose_b, 1.0)


def _bias(product: Node) -> object:
    return None if product.target is daf.batch_gemm.default else product.args[2]


def _addend(product: Node) -> object:
    return product.args[3] if product.target is daf.gemm_add.default else None


def _scale(product: Node, factor: float) -> None:
    if product.target is daf.gemm.default and product.meta["val"].dim() == 2:
        product.args = _gemm_add_args(product)  # type: ignore[assignment]
        product.target = daf.gemm_add.default
    *others, alpha = product.args
    product.args = (*others, alpha * factor)  # type: ignore[operator]
