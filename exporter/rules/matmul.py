"""Matrix products: `daf::gemm` reads operands as they lie, transposed or not."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf


@converts(aten.mm.default, aten.bmm.default)
def product(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    return edit.call(daf.gemm.default, a["self"], a["mat2"], None, False, False)


@converts(aten.addmm.default)
def product_with_bias(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    if a["self"].meta["val"].dim() == 1 and a["alpha"] == 1 and a["beta"] == 1:
        return edit.call(daf.gemm.default, a["mat1"], a["mat2"], a["self"], False, False)
    result = edit.call(daf.gemm.default, a["mat1"], a["mat2"], None, False, False)
    if a["alpha"] != 1:
        result = edit.call(aten.mul.Scalar, result, a["alpha"])
    addend = a["self"] if a["beta"] == 1 else edit.call(aten.mul.Scalar, a["self"], a["beta"])
    return edit.call(aten.add.Tensor, result, addend)
