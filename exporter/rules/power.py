"""Powers with a small whole exponent: products, for which there is a fast kernel."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten


@converts(aten.pow.Tensor_Scalar)
def power(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    x, exponent = a["self"], a["exponent"]
    if not is_float32(node, x) or exponent not in (1, 2, 3):
        return None
    result: Node = x
    for _ in range(int(exponent) - 1):
        result = edit.call(aten.mul.Tensor, result, x)
    return result
