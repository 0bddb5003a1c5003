"""Batch, layer and group normalisation with their backwards."""

from __future__ import annotations

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import Replacement, arguments, converts, is_float32

aten = torch.ops.aten
daf = torch.ops.daf


@converts(aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats)
def batch_norm(edit: GraphEditor, node: Node) -> Replacement:
    """Output 2 becomes the variance (ATen: 1 / standard deviation): backward below is the only reader."""
    a = arguments(node)
    if not is_float32(a["input"]):
        return None
    mean, var = a.get("running_mean"), a.get("running_var")
    if a["training"]:
        made = edit.call(
            daf.batch_norm_train.default, a["input"], a["weight"], a["bias"], mean, var, a["momentum"], a["eps"]
        )
        return {i: edit.item(made, i) for i in range(5)}
    y = edit.call(daf.batch_norm_eval.default, a["input"], a["weight"], a["bias"], mean, var, a["eps"])
    return {0: y, 3: mean, 4: var}  # type: ignore[dict-item]


@converts(aten._native_batch_norm_legit_no_training.default)
def batch_norm_eval(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["input"]):
        return None
    statistics = a["running_mean"], a["running_var"]
    return {0: edit.call(daf.batch_norm_eval.default, a["input"], a["weight"], a["bias"], *statistics, a["eps"])}


@converts(aten.native_batch_norm_backward.default)
def batch_norm_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["grad_out"]):
        return None
    train = a["train"]
    statistics = (a["save_mean"], a["save_invstd"]) if train else (a["running_mean"], a["running_var"])
    made = edit.call(
        daf.batch_norm_backward.default, a["grad_out"], a["input"], a["weight"], *statistics, train, a["eps"]
    )
    return {i: edit.item(made, i) for i in range(3)}


@converts(aten.native_layer_norm.default)
def layer_norm(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["input"]):
        return None
    n_axes = len(a["normalized_shape"])
    made = edit.call(daf.layer_norm.default, a["input"], a["weight"], a["bias"], n_axes, a["eps"])
    return {i: edit.item(made, i) for i in range(3)}


@converts(aten.native_layer_norm_backward.default)
def layer_norm_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["grad_out"]):
        return None
    n_axes = len(a["normalized_shape"])
    made = edit.call(
        daf.layer_norm_backward.default, a["grad_out"], a["input"], a["weight"], a["mean"], a["rstd"], n_axes
    )
    return {i: edit.item(made, i) for i in range(3)}


@converts(aten.native_group_norm.default)
def group_norm(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["input"]):
        return None
    made = edit.call(daf.group_norm.default, a["input"], a["weight"], a["bias"], a["group"], a["eps"])
    return {i: edit.item(made, i) for i in range(3)}


@converts(aten.native_group_norm_backward.default)
def group_norm_backward(edit: GraphEditor, node: Node) -> Replacement:
    a = arguments(node)
    if not is_float32(a["grad_out"]):
        return None
    made = edit.call(
        daf.group_norm_backward.default, a["grad_out"], a["input"], a["weight"], a["mean"], a["rstd"], a["group"]
    )
    return {i: edit.item(made, i) for i in range(3)}
