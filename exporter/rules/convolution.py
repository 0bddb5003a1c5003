"""Convolution and its three gradients; a transposed convolution is the input gradient of an ordinary one."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32, used_outputs

aten = torch.ops.aten
daf = torch.ops.daf


def _geometry(a: dict[str, Any]) -> tuple[list[int], list[int], list[int], int]:
    return list(a["stride"]), list(a["padding"]), list(a["dilation"]), a["groups"]


def _spatial(node: Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape[2:]]


@converts(aten.convolution.default)
def convolution(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node) or node.meta["val"].dim() > 4:
        return None
    if a["transposed"]:
        return edit.call(
            daf.convolution_input_grad.default, a["input"], a["weight"], a["bias"], _spatial(node), *_geometry(a)
        )
    return edit.call(daf.convolution.default, a["input"], a["weight"], a["bias"], *_geometry(a))


@converts(aten.convolution_backward.default)
def convolution_backward(edit: GraphEditor, node: Node) -> Replacement:
    """The weight gradient comes last: it is applied and freed right after it is made."""
    a = arguments(node)
    grad, x, weight = a["grad_output"], a["input"], a["weight"]
    if not is_float32(grad) or grad.meta["val"].dim() > 4:
        return None
    used = used_outputs(node)
    results: dict[int, Node] = {}
    if 0 in used:
        if a["transposed"]:
            made = edit.call(daf.convolution.default, grad, weight, None, *_geometry(a))
            results[0] = _crop(edit, made, _spatial(x))
        else:
            results[0] = edit.call(daf.convolution_input_grad.default, grad, weight, None, _spatial(x), *_geometry(a))
    if 2 in used:
        axes = [0, *range(2, grad.meta["val"].dim())]
        results[2] = edit.call(daf.sum_axes.default, grad, axes, False, False)
    if 1 in used:
        output_side, input_side = (x, grad) if a["transposed"] else (grad, x)
        results[1] = edit.call(
            daf.convolution_weight_grad.default, output_side, input_side, _spatial(weight), *_geometry(a)
        )
    return results


def _crop(edit: GraphEditor, node: Node, spatial: list[int]) -> Node:
    """An output padding of a stride or more makes room for positions that the input does not have."""
    for axis, size in enumerate(spatial, start=2):
        if node.meta["val"].shape[axis] > size:
            node = edit.call(aten.slice.Tensor, node, axis, 0, size)
    return node
