"""Embedding tables."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf


def _has_int64_index(index: Node) -> bool:
    return bool(index.meta["val"].dtype == torch.int64)


@converts(aten.embedding.default)
def embedding(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node) or not _has_int64_index(a["indices"]):
        return None
    return edit.call(daf.embedding.default, a["weight"], a["indices"])


@converts(aten.embedding_dense_backward.default)
def embedding_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node) or not _has_int64_index(a["indices"]) or a["scale_grad_by_freq"]:
        return None
    return edit.call(
        daf.embedding_backward.default, a["grad_output"], a["indices"], int(a["num_weights"]), int(a["padding_idx"])
    )
