"""What backward needs of an expanded tensor, it expands again: less is kept.

With grouped queries, as Llama has them, several heads share their keys and values, which forward expands to all heads.
"""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.find_saved import is_view, mark_phases
from daf.exporter.graph import GraphEditor

aten = torch.ops.aten


def repeat_expands(program: ExportedProgram) -> None:
    mark_phases(program)
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.target is aten.expand.default and node.meta["daf_phase"] == "forward" and _is_larger(node):
            _repeat(edit, [node])
    edit.finish()


def _is_larger(expand: Node) -> bool:
    source = expand.args[0]
    return isinstance(source, Node) and source.meta["val"].numel() < expand.meta["val"].numel()


def _repeat(edit: GraphEditor, chain: list[Node]) -> None:
    """`chain`: an expansion and the views of it, up to one. For each reader of backward they are made anew: between two
    of them they would be kept.
    """
    for user in list(chain[-1].users):
        if user.op != "call_function":
            continue
        if user.meta["daf_phase"] == "backward":
            again = chain[0].args[0]
            assert isinstance(again, Node)
            with edit.at(user):
                for step in chain:
                    again = edit.repeat(step, again)
            user.replace_input_with(chain[-1], again)
        elif is_view(user):
            _repeat(edit, [*chain, user])
