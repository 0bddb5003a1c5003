"""Batch normalisation by its running statistics, which then stay as they are.

Its backward is a product with constants: unless its scale trains, nothing is kept for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from daf.exporter.graph import GraphEditor, inputs_of_kind

aten = torch.ops.aten
daf = torch.ops.daf


def freeze_norms(program: ExportedProgram, is_frozen: Callable[[Node], bool]) -> set[str]:
    """`is_frozen` of a batch_norm_train. Returns the modules whose statistics are now constant."""
    edit = GraphEditor(program)
    names = {node: name for name, node in inputs_of_kind(program, InputKind.BUFFER).items()}
    modules: set[str] = set()
    for node in list(edit.graph.nodes):
        if node.target is daf.batch_norm_train.default and node.args[3] is not None and is_frozen(node):
            modules.add(names[node.args[3]].rpartition(".")[0])
            _use_running_statistics(edit, node)
    # Of its buffers nothing is left to change, the count of batches included.
    edit.remove_outputs(
        lambda spec: spec.kind == OutputKind.BUFFER_MUTATION and str(spec.target).rpartition(".")[0] in modules
    )
    edit.finish()
    return modules


def shorten_backward(program: ExportedProgram) -> None:
    """With constant statistics and scale, the gradient of the input does not depend on the input."""
    edit = GraphEditor(program)
    names = {node: name for name, node in inputs_of_kind(program, InputKind.PARAMETER, InputKind.BUFFER).items()}
    for node in list(edit.graph.nodes):
        if node.target is not daf.batch_norm_backward.default or node.args[5]:
            continue
        grad, _, weight, _, var, _, eps = node.args
        items = {item.args[1]: item for item in node.users}
        if 1 in items or var not in names or (weight is not None and weight not in names):
            continue
        scale = (program.state_dict[names[var]].detach() + eps).rsqrt()
        if weight is not None:
            scale = scale * program.state_dict[names[weight]].detach()
        n_axes = grad.meta["val"].dim()
        if 0 in items:
            scale = scale.reshape(-1, *(1 for _ in range(n_axes - 2)))
            factor = edit.add_buffer(f"{names[var].rpartition('.')[0]}.gradient_scale", scale.contiguous())
            with edit.at(items[0]):
                edit.replace(items[0], edit.call(aten.mul.Tensor, grad, factor))
        if 2 in items:
            axes = [axis for axis in range(n_axes) if axis != 1]
            with edit.at(items[2]):
                edit.replace(items[2], edit.call(daf.sum_axes.default, grad, axes, False, False))
    edit.finish()


def _use_running_statistics(edit: GraphEditor, norm: Node) -> None:
    x, weight, bias, mean, var, _, eps = norm.args
    assert isinstance(mean, Node)
    assert isinstance(var, Node)
    with edit.at(norm):
        y = edit.call(daf.batch_norm_eval.default, x, weight, bias, mean, var, eps)
    values = {0: y, 1: mean, 2: var, 3: mean, 4: var}
    for item in list(norm.users):
        assert item.target is operator.getitem
        for reader in list(item.users):
            if reader.target is daf.batch_norm_backward.default:
                reader.args = (*reader.args[:5], False, *reader.args[6:])
        edit.replace(item, values[item.args[1]])  # type: ignore[index]
    edit.graph.erase_node(norm)
