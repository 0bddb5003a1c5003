"""Phase 7, fuse the optimizer: each gradient is applied right after it exists, and its memory is free at once.

Works on the edge program: the trained parameters become mutable buffers, the optimizer's state further ones, and
an in-place operator per parameter takes the place of the gradient output. The layout that ExecuTorch accepts is
narrow: the operator must be an edge operator, the mutation's output spec must come first and point at the
placeholder, and a placeholder's target must equal its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node

from daf.exporter.graph import CLOCK, LEARNING_RATE, GraphEditor, gradients, inputs_of_kind
from daf.exporter.split_gradient import n_blocks, split_gradient


@dataclass(frozen=True)
class Sgd:
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    name: str = "sgd"

    @property
    def slots(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def update(self, edit: GraphEditor, weight: Node, state: list[Node], grad: Node, first_row: int) -> Node:
        lr = edit.runtime_input(LEARNING_RATE)
        daf = exir_ops.edge.daf
        if not self.momentum:
            return edit.call(daf.sgd_.default, weight, grad, lr, self.weight_decay, first_row)
        clock = edit.runtime_input(CLOCK)
        settings = (self.momentum, 0.0, self.weight_decay, self.nesterov)
        return edit.call(daf.sgd_momentum_.default, weight, *state, grad, lr, clock, *settings, first_row)


@dataclass(frozen=True)
class AdamW:
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    name: str = "adamw"

    @property
    def slots(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def update(self, edit: GraphEditor, weight: Node, state: list[Node], grad: Node, first_row: int) -> Node:
        lr, clock = edit.runtime_input(LEARNING_RATE), edit.runtime_input(CLOCK)
        settings = (self.beta1, self.beta2, self.eps, self.weight_decay)
        return edit.call(exir_ops.edge.daf.adamw_.default, weight, *state, grad, lr, clock, *settings, first_row)


@dataclass(frozen=True)
class NoOptimizer:
    """Gradients stay outputs, as ExecuTorch's own TrainingModule wants them."""

    name: str = "none"


Optimizer = Sgd | AdamW | NoOptimizer


def describe(optimizer: Optimizer) -> dict[str, Any]:
    return asdict(optimizer)


def optimizer_state_name(parameter: str, slot: str) -> str:
    return f"{parameter}.{slot}"


def fuse_optimizer(program: ExportedProgram, optimizer: Sgd | AdamW, activation_bytes: int) -> None:
    """`activation_bytes` are kept for backward: what the size of a gradient is judged by."""
    edit = GraphEditor(program)
    signature = program.graph_signature
    weights = inputs_of_kind(program, InputKind.PARAMETER)
    order = {node: i for i, node in enumerate(edit.graph.nodes)}
    trained = gradients(program)
    mutated: list[tuple[Node, str]] = []
    for name, grad in trained.items():
        weight = weights[name]
        state = [_add_state(edit, optimizer_state_name(name, slot), weight) for slot in optimizer.slots]
        place = max([grad, *_readers(weight)], key=order.__getitem__)
        with edit.graph.inserting_before(place.next):
            for first_row, block in _blocks(edit, grad, activation_bytes):
                block.meta["daf_role"] = "gradient"
                update = optimizer.update(edit, weight, state, block, first_row)
                update.meta["daf_phase"] = "update"
        mutated += [(weight, name)]
        mutated += [(s, optimizer_state_name(name, slot)) for s, slot in zip(state, optimizer.slots, strict=True)]
    parameters_to_buffers(program, set(trained))
    _replace_outputs(program, mutated)
    assert all(spec.kind != OutputKind.GRADIENT_TO_PARAMETER for spec in signature.output_specs)
    edit.finish()


def _blocks(edit: GraphEditor, grad: Node, activation_bytes: int) -> Iterator[tuple[int, Node]]:
    blocks = n_blocks(grad, activation_bytes)
    if blocks == 1:
        yield 0, grad
        return
    for first_row, block in split_gradient(edit, grad, blocks):
        for node in (block, *block.all_input_nodes):
            node.meta.setdefault("daf_phase", "backward")
        yield first_row, block


def parameters_to_buffers(program: ExportedProgram, names: set[str]) -> None:
    """A parameter that training changes lives in the mutable state, in `predict` too."""
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.PARAMETER and spec.target in names:
            spec.kind = InputKind.BUFFER
            spec.persistent = True
            value = program.state_dict[str(spec.target)]
            program.state_dict[str(spec.target)] = value.detach()
    for node in inputs_of_kind(program, InputKind.BUFFER).values():
        if isinstance(node.meta["val"], torch.nn.Parameter):
            node.meta["val"] = node.meta["val"].detach()


def _readers(weight: Node) -> list[Node]:
    """Nodes that read the weight, through views of it too; updates of other slots do not count."""
    found: list[Node] = []
    pending = list(weight.users)
    while pending:
        node = pending.pop()
        if node.op != "call_function" or node.meta.get("daf_phase") == "update":
            continue
        found.append(node)
        if "view" in str(node.target) or "squeeze" in str(node.target):
            pending.extend(node.users)
    return found


def _add_state(edit: GraphEditor, name: str, like: Node) -> Node:
    """A zero buffer of the shape of a parameter, placed before the user's inputs."""
    program = edit.program
    user_inputs = inputs_of_kind(program, InputKind.USER_INPUT)
    first = next(iter(user_inputs.values()))
    with edit.graph.inserting_before(first):
        node = edit.graph.placeholder(f"state_{name.replace('.', '_')}")
    node.target = node.name
    value: Tensor = like.meta["val"].detach()
    node.meta["val"] = value
    specs = program.graph_signature.input_specs
    place = next(i for i, spec in enumerate(specs) if spec.kind == InputKind.USER_INPUT)
    specs.insert(place, InputSpec(InputKind.BUFFER, TensorArgument(node.name), target=name, persistent=True))
    program.state_dict[name] = torch.zeros(list(value.shape), dtype=value.dtype)
    return node


def _replace_outputs(program: ExportedProgram, mutated: list[tuple[Node, str]]) -> None:
    signature = program.graph_signature
    output = program.graph.output_node()
    kept = [
        (spec, node)
        for spec, node in zip(signature.output_specs, output.args[0], strict=True)
        if spec.kind != OutputKind.GRADIENT_TO_PARAMETER
    ]
    new = [(OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(n.name), name), n) for n, name in mutated]
    signature.output_specs[:] = [spec for spec, _ in (*new, *kept)]
    output.args = (tuple(node for _, node in (*new, *kept)),)
