"""Makes the gradient of the logits together with the loss.

Apart, forward would keep the log-probabilities, as large as the logits (in a language model the largest of all
activations), for the first operator of backward. Only where the loss is the cross-entropy itself: were more to come
behind it, the gradient would be what is kept.
"""

from __future__ import annotations

import operator

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from daf.exporter.graph import GraphEditor, is_ones, loss_node

daf = torch.ops.daf


def fuse_cross_entropy(program: ExportedProgram) -> None:
    if all(spec.kind != OutputKind.LOSS_OUTPUT for spec in program.graph_signature.output_specs):
        return
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is daf.softmax_backward.default:
            _fuse(edit, node)
    edit.finish()


def _fuse(edit: GraphEditor, backward: Node) -> None:
    grad, log_p, axis, log = backward.args
    if not isinstance(grad, Node) or grad.target is not daf.nll_loss_backward.default or not isinstance(log_p, Node):
        return
    of_loss, _, target, weight, _, reduction, ignore_index = grad.args
    loss = loss_node(edit.program)
    made = loss.args[0] if loss.target is operator.getitem else None
    is_whole_loss = isinstance(made, Node) and made.args == (log_p, target, weight, reduction, ignore_index)
    is_same_axis = log and axis == 1 and log_p.meta["val"].dim() == 2
    if is_whole_loss and is_same_axis and is_ones(of_loss) and set(log_p.users) == {made, grad, backward}:
        assert isinstance(made, Node)
        with edit.at(made):
            both = edit.call(daf.cross_entropy.default, log_p.args[0], target, weight, reduction, ignore_index)
            items = edit.item(both, 0), edit.item(both, 1)
        edit.replace(loss, items[0])
        edit.replace(backward, items[1])
