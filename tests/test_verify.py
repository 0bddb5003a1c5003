"""A broken graph is reported with the phase that broke it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from exports import calls, copy_of, mlp_graph
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from daf.exporter.verify import BrokenGraphError, verify

daf = torch.ops.daf


def lose_an_input(program: ExportedProgram) -> None:
    program.graph_signature.input_specs.pop()


def swap_inputs(program: ExportedProgram) -> None:
    specs = program.graph_signature.input_specs
    specs[0], specs[1] = specs[1], specs[0]


def lose_a_weight(program: ExportedProgram) -> None:
    del program.state_dict["hidden.weight"]


def invent_a_weight(program: ExportedProgram) -> None:
    spec = next(s for s in program.graph_signature.input_specs if s.kind == InputKind.PARAMETER)
    spec.target = "nobody.weight"


def rename_an_output(program: ExportedProgram) -> None:
    program.graph_signature.output_specs[0].arg = TensorArgument("nobody")


def lose_an_output(program: ExportedProgram) -> None:
    output = program.graph.output_node()
    output.args = (output.args[0][1:],)


def forget_a_shape(program: ExportedProgram) -> None:
    del calls(program, daf.gemm.default)[0].meta["val"]


def make_it_complex(program: ExportedProgram) -> None:
    node = calls(program, daf.gemm.default)[0]
    node.meta["val"] = torch.ones(5, 8, dtype=torch.complex64)


def use_before_definition(program: ExportedProgram) -> None:
    first, second, *_ = calls(program, daf.gemm.default)
    first.prepend(second)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_an_input, "inputs are .* the signature says"),
        (swap_inputs, "inputs are .* the signature says"),
        (lose_a_weight, "no value for .'hidden.weight'."),
        (invent_a_weight, "no value for .'nobody.weight'."),
        (rename_an_output, "outputs are .* the signature says .*nobody"),
        (lose_an_output, "outputs are .* the signature says"),
        (forget_a_shape, "gemm_default has no shape"),
        (make_it_complex, "gemm_default is complex"),
        (use_before_definition, "used before it has been defined"),
    ],
)
def test_the_phase_is_named(damage: Callable[[ExportedProgram], None], told: str) -> None:
    program = copy_of(mlp_graph())
    verify(program, "canonicalize")
    damage(program)
    with pytest.raises(BrokenGraphError, match=f"(?s)phase 'plan update' broke the graph: .*{told}"):
        verify(program, "plan update")
