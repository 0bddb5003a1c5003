"""Padding with a constant."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts

aten = torch.ops.aten


@converts(aten.constant_pad_nd.default)
def constant_pad(edit: GraphEditor, node: Node) -> Replacement:
    """A negative padding crops, which ExecuTorch's kernel does not: a slice does that part."""
    a = arguments(node)
    pads = [int(pad) for pad in a["pad"]]
    x: Node = a["self"]
    if min(pads) >= 0:
        return None
    for i in range(0, len(pads), 2):
        axis = x.meta["val"].dim() - 1 - i // 2
        first, last = max(0, -pads[i]), max(0, -pads[i + 1])
        if first or last:
            x = edit.call(aten.slice.Tensor, x, axis, first, x.meta["val"].shape[axis] - last)
    kept = [max(0, pad) for pad in pads]
    return edit.call(aten.constant_pad_nd.default, x, kept, a["value"]) if any(kept) else x
