"""The verifier that runs after every phase: a broken graph is reported with the phase that broke it."""

from __future__ import annotations

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx import Node
from torch.utils import _pytree as pytree

from daf.exporter.graph import ASSERTIONS


class BrokenGraphError(AssertionError):
    """A defect of the exporter, not of the user's model."""


def verify(program: ExportedProgram, phase: str) -> None:
    try:
        program.graph.lint()
        _check_inputs(program)
        _check_outputs(program)
        _check_values(program)
    except (AssertionError, RuntimeError) as error:
        raise BrokenGraphError(f"phase '{phase}' broke the graph: {error}") from error


def _check_inputs(program: ExportedProgram) -> None:
    placeholders = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    specs = [spec.arg.name for spec in program.graph_signature.input_specs]
    assert placeholders == specs, f"inputs are {placeholders}, the signature says {specs}"
    state = {str(spec.target) for spec in program.graph_signature.input_specs if spec.target is not None}
    known = set(program.state_dict) | set(program.constants)
    assert state <= known, f"no value for {sorted(state - known)}"


def _check_outputs(program: ExportedProgram) -> None:
    outputs = [node.name for node in program.graph.output_node().args[0] if isinstance(node, Node)]
    specs = [s.arg.name for s in program.graph_signature.output_specs if isinstance(s.arg, TensorArgument)]
    assert outputs == specs, f"outputs are {outputs}, the signature says {specs}"


def _check_values(program: ExportedProgram) -> None:
    """Every node knows its shape, and nothing but float, int and bool tensors is left."""
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target in ASSERTIONS:
            continue
        assert "val" in node.meta, f"{node.name} has no shape"
        for value in pytree.tree_leaves(node.meta["val"]):
            if isinstance(value, torch.Tensor):
                assert not value.is_complex(), f"{node.name} is complex"
