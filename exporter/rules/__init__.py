"""Which ATen operator becomes which `daf::` operator: one module per family, one registry.

A rule gets the editor and a node. It returns the replacement: a node, or for an operator with several outputs
a dict from output index to node; or None to leave the node as it is (for ExecuTorch's own kernels).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from daf.exporter.graph import GraphEditor

Replacement = Node | dict[int, Node] | None
Rule = Callable[[GraphEditor, Node], Replacement]

RULES: dict[Any, Rule] = {}


def converts(*targets: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for target in targets:
            RULES[target] = rule
        return rule

    return register


def arguments(node: Node) -> dict[str, Any]:
    """A node's arguments by name, defaults filled in."""
    assert isinstance(node.target, torch._ops.OpOverload)
    values: dict[str, Any] = {}
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args):
            values[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        else:
            values[argument.name] = argument.default_value
    return values


def is_float32(*nodes: Node) -> bool:
    return all(node.meta["val"].dtype == torch.float32 for node in nodes)


def pair(values: list[int], default: list[int] | None = None) -> list[int]:
    """PyTorch's short forms of two-dimensional settings: [], [k] and [k, k]."""
    if not values and default is not None:
        return default
    return [values[0], values[0]] if len(values) == 1 else list(values)


def used_outputs(node: Node) -> set[int]:
    return {output_index(user) for user in node.users if user.users or _is_output(user)}


def output_index(item: Node) -> int:
    """Which output of its operator a getitem node is."""
    index = item.args[1]
    assert isinstance(index, int)
    return index


def _is_output(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


from daf.exporter.rules import (  # noqa: E402, F401  (they register themselves)
    activation,
    convolution,
    creation,
    embedding,
    loss,
    matmul,
    normalization,
    padding,
    pooling,
    power,
    reduction,
)
