"""Which saved values may be rounded: those that backward reads only by operators which are linear in them.

Stochastic rounding is right on average, and so is what a linear operator makes of it. Anything else must have the exact
value: the square of a rounded value is too large on average, 1 / variance is not finite where the variance was rounded
to 0, and no rounded value equals the maximum that it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from daf.exporter import ops  # noqa: F401  (defines the operators)
from daf.exporter.find_saved import is_view, storage_root

aten = torch.ops.aten
daf = torch.ops.daf

# Operator -> the places of the arguments that it is linear in, one at a time. With one of them it makes a gradient, and
# what backward does with a gradient is linear. Normalisations read x twice; that the rounding errors of one element
# meet themselves is one of the many products that they sum.
_FACTORS: dict[Any, set[int]] = {
    daf.gemm.default: {0, 1},
    daf.batch_gemm.default: {0, 1},
    daf.convolution.default: {0, 1},
    daf.convolution_input_grad.default: {0, 1},
    daf.convolution_weight_grad.default: {0, 1},
    daf.batch_norm_backward.default: {0, 1, 2},
    daf.layer_norm_backward.default: {0, 1, 2},
    daf.group_norm_backward.default: {0, 1, 2},
    daf.softmax_backward.default: {0, 1},
}
# What these make is as linear as its own readers are.
_MAPS: dict[Any, set[int]] = {
    aten.add.Scalar: {0},
    aten.add.Tensor: {0, 1},
    aten.cat.default: {0},
    aten.clone.default: {0},
    aten.constant_pad_nd.default: {0},
    aten.div.Scalar: {0},
    aten.div.Tensor: {0},
    aten.expand.default: {0},
    aten.mul.Scalar: {0},
    aten.mul.Tensor: {0, 1},
    aten.neg.default: {0},
    aten.permute.default: {0},
    aten.repeat.default: {0},
    aten.select.int: {0},
    aten.slice.Tensor: {0},
    aten.sub.Scalar: {0},
    aten.sub.Tensor: {0, 1},
    aten.where.self: {1, 2},
    daf.dropout.default: {0},
    daf.gather_channels.default: {0},
    daf.sum_axes.default: {0},
}
# Read for so many elements each, a value is a statistic of them: its error would be theirs in common, and exactly it
# takes no more than a bit of each.
STATISTIC_OF = 32
# Of two factors the other is a gradient where it is of backward.
_PRODUCTS = {aten.mul.Tensor, aten.div.Tensor}


def may_be_rounded(value: Node, ignore: Callable[[Node], bool] = lambda reader: False) -> bool:
    """Whether backward reads `value` linearly everywhere, leaving out readers that do not need the value."""
    made, waiting, readers = {value}, [value], []
    while waiting:
        node = waiting.pop()
        for reader in node.users:
            if reader.op != "call_function":
                continue
            if not is_view(reader):
                if reader.meta["daf_phase"] != "backward" or ignore(reader):
                    continue
                if not _is_linear(reader, node):
                    return False
                readers.append(reader)
                if _makes_gradient(reader, node):
                    continue
            if reader not in made:
                made.add(reader)
                waiting.append(reader)
    return not any(_multiplies(reader) and len(made.intersection(reader.all_input_nodes)) > 1 for reader in readers)


def _is_linear(reader: Node, value: Node) -> bool:
    places = {i for i, argument in enumerate(reader.args) if value in _nodes(argument)}
    if reader.target is daf.activation_backward.default:
        return places == {0} or (places == {1} and reader.args[2] == "exp")  # whose backward is the product
    if reader.target in _FACTORS:
        return places <= _FACTORS[reader.target] and len(places) == 1
    if _multiplies(reader) and len(places) > 1:
        return False
    is_statistic = reader.meta["val"].numel() >= STATISTIC_OF * value.meta["val"].numel()
    return places <= _MAPS.get(reader.target, set()) and not is_statistic


def _multiplies(reader: Node) -> bool:
    return reader.target not in _MAPS or reader.target in _PRODUCTS


def _makes_gradient(reader: Node, value: Node) -> bool:
    if reader.target in _PRODUCTS:
        others = [node for node in reader.all_input_nodes if node is not value]
        return any(storage_root(node).meta.get("daf_phase") == "backward" for node in others)
    return reader.target not in _MAPS


def _nodes(argument: object) -> list[Node]:
    if isinstance(argument, Node):
        return [argument]
    return [item for item in argument if isinstance(item, Node)] if isinstance(argument, list | tuple) else []
