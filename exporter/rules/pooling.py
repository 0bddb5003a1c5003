"""Pooling in two dimensions (PyTorch makes the one-dimensional forms from these)."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32, pair

aten = torch.ops.aten
daf = torch.ops.daf


def _size(node: Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape[-2:]]


def _window(a: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    kernel = pair(a["kernel_size"])
    return kernel, pair(a["stride"] or [], kernel), pair(a["padding"])


@converts(aten.max_pool2d_with_indices.default)
def max_pool2d(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["self"]):
        return None
    made = edit.call(daf.max_pool2d.default, a["self"], *_window(a), pair(a["dilation"]), a["ceil_mode"])
    return {i: edit.item(made, i) for i in range(2)}


@converts(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(edit: GraphEditor, node: Node) -> Replacement:
    """Reads the places of the maxima only: the pooled map itself need not be kept."""
    a = arguments(node)
    if not is_float32(node):
        return None
    return edit.call(
        daf.max_pool2d_backward.default,
        a["grad_output"],
        a["indices"],
        _size(a["self"]),
        *_window(a),
        pair(a["dilation"]),
    )


@converts(aten.avg_pool2d.default)
def avg_pool2d(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    divisor = a["divisor_override"] or 0
    return edit.call(daf.avg_pool2d.default, a["self"], *_window(a), a["ceil_mode"], a["count_include_pad"], divisor)


@converts(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    divisor = a["divisor_override"] or 0
    return edit.call(
        daf.avg_pool2d_backward.default,
        a["grad_output"],
        _size(a["self"]),
        *_window(a),
        a["count_include_pad"],
        divisor,
    )


@converts(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    return edit.call(daf.adaptive_avg_pool2d.default, a["self"], _size(node))


@converts(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    return edit.call(daf.adaptive_avg_pool2d_backward.default, a["grad_output"], _size(a["self"]))
