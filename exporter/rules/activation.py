"""Activation functions and softmax; dropout, whose mask is made anew in backward instead of kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from daf.exporter.graph import CLOCK, GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf

# (kind, a, b) of daf::activation, or None where the arguments are of a form the kernel does not have.
Kind = tuple[str, float, float]
_Settings = Callable[[dict[str, Any]], Kind | None]

_FORWARD: dict[Any, _Settings] = {
    aten.relu.default: lambda a: ("relu", 0.0, 0.0),
    aten.hardtanh.default: lambda a: ("hardtanh", float(a["min_val"]), float(a["max_val"])),
    aten.leaky_relu.default: lambda a: ("leaky_relu", float(a["negative_slope"]), 0.0),
    aten.sigmoid.default: lambda a: ("sigmoid", 0.0, 0.0),
    aten.tanh.default: lambda a: ("tanh", 0.0, 0.0),
    aten.silu.default: lambda a: ("silu", 0.0, 0.0),
    aten.hardswish.default: lambda a: ("hardswish", 0.0, 0.0),
    aten.gelu.default: lambda a: ("gelu_tanh" if a["approximate"] == "tanh" else "gelu", 0.0, 0.0),
}
# Backward operator -> (settings, name of the argument that holds what forward saved).
_BACKWARD: dict[Any, tuple[_Settings, str]] = {
    aten.threshold_backward.default: (lambda a: ("relu", 0.0, 0.0) if a["threshold"] == 0 else None, "self"),
    aten.hardtanh_backward.default: (lambda a: ("hardtanh", float(a["min_val"]), float(a["max_val"])), "self"),
    aten.leaky_relu_backward.default: (
        lambda a: None if a["self_is_result"] else ("leaky_relu", float(a["negative_slope"]), 0.0),
        "self",
    ),
    aten.sigmoid_backward.default: (lambda a: ("sigmoid", 0.0, 0.0), "output"),
    aten.tanh_backward.default: (lambda a: ("tanh", 0.0, 0.0), "output"),
    aten.silu_backward.default: (lambda a: ("silu", 0.0, 0.0), "self"),
    aten.hardswish_backward.default: (lambda a: ("hardswish", 0.0, 0.0), "self"),
    aten.gelu_backward.default: (lambda a: ("gelu_tanh" if a["approximate"] == "tanh" else "gelu", 0.0, 0.0), "self"),
}


@converts(*_FORWARD)
def activation(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    kind = _FORWARD[node.target](a)
    if kind is None or not is_float32(node):
        return None
    return edit.call(daf.activation.default, a["self"], *kind)


@converts(*_BACKWARD)
def activation_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    settings, saved = _BACKWARD[node.target]
    kind = settings(a)
    if kind is None or not is_float32(node):
        return None
    value = a[saved]
    if kind[0] == "hardtanh":  # ATen keeps the input
        value = next((user for user in value.users if _is_forward(user, kind)), value)
    return edit.call(daf.activation_backward.default, a["grad_output"], value, *kind)


@converts(aten.elu.default, aten.elu_backward.default)
def elu(edit: GraphEditor, node: Node) -> Replacement:
    """scale * (x, or alpha * (exp(input_scale * x) - 1) where x is negative): ELU, SELU and CELU.

    The kernel has alpha alone, so it gets input_scale * x, and its result is scaled.
    """
    a = arguments(node)
    if not is_float32(node) or a.get("is_result", False):
        return None
    scale, input_scale = float(a["scale"]), float(a["input_scale"])
    kind: Kind = ("elu", float(a["alpha"]) * input_scale, 0.0)

    def scaled(x: Node, factor: float) -> Node:
        return x if factor == 1.0 else edit.call(aten.mul.Tensor, x, factor)

    if node.target is aten.elu.default:
        return scaled(edit.call(daf.activation.default, scaled(a["self"], input_scale), *kind), scale / input_scale)
    x = scaled(a["self_or_result"], input_scale)
    return scaled(edit.call(daf.activation_backward.default, a["grad_output"], x, *kind), scale)


def _is_forward(node: Node, kind: Kind) -> bool:
    return node.target is daf.activation.default and node.args[1:] == kind


@converts(aten._softmax.default, aten._log_softmax.default)
def softmax(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node, a["self"]):
        return None
    axis = a["dim"] % max(1, node.meta["val"].dim())
    return edit.call(daf.softmax.default, a["self"], axis, node.target is aten._log_softmax.default)


@converts(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def softmax_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(node):
        return None
    axis = a["dim"] % max(1, node.meta["val"].dim())
    log = node.target is aten._log_softmax_backward_data.default
    return edit.call(daf.softmax_backward.default, a["grad_output"], a["output"], axis, log)


@converts(aten.native_dropout.default)
def dropout(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["input"]):
        return None
    layer = edit.n_dropouts  # dropouts are numbered in the order in which the model runs them
    edit.n_dropouts += 1
    y = edit.call(daf.dropout.default, a["input"], edit.runtime_input(CLOCK), float(a["p"]), layer)
    for mask in [user for user in node.users if user.args[1] == 1]:
        for backward in [user for user in mask.users if user.target is aten.native_dropout_backward.default]:
            with edit.at(backward):
                grad = edit.call(daf.dropout.default, backward.args[0], *y.args[1:])
            edit.replace(backward, grad)
    return {0: y}
