"""Replaces ATen operators by `daf::` operators, by the rules in daf.exporter.rules."""

from __future__ import annotations

from torch.export.exported_program import ExportedProgram
from torch.fx import Node

from daf.exporter.graph import GraphEditor
from daf.exporter.rules import RULES, output_index


def convert_to_daf(program: ExportedProgram) -> None:
    edit = GraphEditor(program)
    for node in list(edit.graph.nodes):
        if node.op != "call_function" or node.target not in RULES:
            continue
        with edit.at(node):
            replacement = RULES[node.target](edit, node)
        if isinstance(replacement, Node):
            edit.replace(node, replacement)
        elif replacement is not None:
            for item in list(node.users):
                index = output_index(item)
                if index in replacement:
                    edit.replace(item, replacement[index])
                elif not item.users:
                    edit.graph.erase_node(item)
            if not node.users:  # a random operator would survive the removal of dead code
                edit.graph.erase_node(node)
    edit.finish()
