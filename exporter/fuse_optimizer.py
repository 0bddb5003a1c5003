"""Phase 7, fuse the optimizer: each gradient is applied right after it exists, and its memory is free at once.

Works on the edge program: the trained parameters become mutable buffers, the optimizer's state further ones, and
an in-place operator per parameter takes the place of the gradient output. The layout that ExecuTorch accepts is
narrow: the operator must be an edge operator, the mutation's output spec must come first and point at the
placeholder, and a placeholder's target must equal its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node

from daf.exporter.graph import CLOCK, LEARNING_RATE, GraphEditor, gradients, inputs_of_kind
from daf.exporter.passes.select_channels import index_name
from daf.exporter.split_gradient import n_blocks, split_gradient

if TYPE_CHECKING:
    from daf.exporter.plan_update import UpdateLayer

# What the session chooses the channels of a weight by, beside the optimizer's own state (`<parameter>.<kind>`):
# index        int64[2, chosen]   channels, and the step since which each is chosen
# square_grad  float32[chosen]    sum of the squared norms of their gradients since the last rotation
# score        float32[channels]  running average of those of every channel seen
# n_visits     int64[channels]    how often each was chosen anew
INDEX_STATE = ("index", "square_grad", "score", "n_visits")


@dataclass(frozen=True)
class Rows:
    """A gradient of rows of the weight, from `first` on; all of them, mostly."""

    first: int = 0
    tensors: tuple[Node, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.first,)


@dataclass(frozen=True)
class ChosenChannels:
    """A gradient of the channels that an index names."""

    index: Node
    square_grad: Node  # where the operator adds up the squared norms of each channel's gradients
    axis: int
    block: int

    @property
    def tensors(self) -> tuple[Node, ...]:
        return (self.square_grad, self.index)

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.axis, self.block)


Place = Rows | ChosenChannels


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

    def update(self, edit: GraphEditor, weight: Node, state: list[Node], grad: Node, place: Place) -> Node:
        lr = edit.runtime_input(LEARNING_RATE)
        daf = exir_ops.edge.daf
        if not self.momentum:
            operator = daf.sgd_channels_ if isinstance(place, ChosenChannels) else daf.sgd_
            return edit.call(operator.default, weight, *place.tensors, grad, lr, self.weight_decay, *place.numbers)
        operator = daf.sgd_momentum_channels_ if isinstance(place, ChosenChannels) else daf.sgd_momentum_
        settings = (edit.runtime_input(CLOCK), self.momentum, 0.0, self.weight_decay, self.nesterov)
        return edit.call(operator.default, weight, *state, *place.tensors, grad, lr, *settings, *place.numbers)


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

    def update(self, edit: GraphEditor, weight: Node, state: list[Node], grad: Node, place: Place) -> Node:
        lr, clock = edit.runtime_input(LEARNING_RATE), edit.runtime_input(CLOCK)
        daf = exir_ops.edge.daf
        operator = daf.adamw_channels_ if isinstance(place, ChosenChannels) else daf.adamw_
        settings = (clock, self.beta1, self.beta2, self.eps, self.weight_decay)
        return edit.call(operator.default, weight, *state, *place.tensors, grad, lr, *settings, *place.numbers)


@dataclass(frozen=True)
class NoOptimizer:
    """Gradients stay outputs, as ExecuTorch's own TrainingModule wants them."""

    name: str = "none"


Optimizer = Sgd | AdamW | NoOptimizer


def describe(optimizer: Optimizer) -> dict[str, Any]:
    return asdict(optimizer)


def optimizer_state_name(parameter: str, slot: str) -> str:
    return f"{parameter}.{slot}"


def fuse_optimizer(
    program: ExportedProgram,
    optimizer: Sgd | AdamW,
    activation_bytes: int,
    update_layers: Mapping[str, UpdateLayer] | None = None,
) -> None:
    """`activation_bytes` are kept for backward: what the size of a gradient is judged by.

    The optimizer's state of a weight in `update_layers` is [chosen channel, its weights].
    """
    edit = GraphEditor(program)
    signature = program.graph_signature
    weights = inputs_of_kind(program, InputKind.PARAMETER)
    order = {node: i for i, node in enumerate(edit.graph.nodes)}
    trained = gradients(program)
    mutated: list[tuple[Node, str]] = []
    for name, grad in trained.items():
        weight = weights[name]
        layer = (update_layers or {}).get(name)
        shape = list(weight.meta["val"].shape) if layer is None else [layer.n_chosen, layer.slice_elements]
        slots = [optimizer_state_name(name, slot) for slot in optimizer.slots]
        state = [edit.add_buffer(slot, torch.zeros(shape)) for slot in slots]
        mutated += [(weight, name), *zip(state, slots, strict=True)]
        channels = None if layer is None else _add_channels(edit, layer, mutated)
        place = max([grad, *_readers(weight)], key=order.__getitem__)
        with edit.graph.inserting_before(place.next):
            blocks: Iterable[tuple[Place, Node]] = (
                _blocks(edit, grad, activation_bytes) if channels is None else [(channels, grad)]
            )
            for rows, block in blocks:
                block.meta["daf_role"] = "gradient"
                update = optimizer.update(edit, weight, state, block, rows)
                update.meta["daf_phase"] = "update"
    parameters_to_buffers(program, set(trained))
    _replace_outputs(program, mutated)
    assert all(spec.kind != OutputKind.GRADIENT_TO_PARAMETER for spec in signature.output_specs)
    edit.finish()


def _add_channels(edit: GraphEditor, layer: UpdateLayer, mutated: list[tuple[Node, str]]) -> ChosenChannels:
    """The state that the session chooses channels by. It writes the index, between steps: for the planner, the graph
    changes it too."""
    index = inputs_of_kind(edit.program, InputKind.BUFFER)[index_name(layer.parameter)]
    square_grad = edit.add_buffer(f"{layer.parameter}.square_grad", torch.zeros(layer.n_chosen))
    score = edit.add_buffer(f"{layer.parameter}.score", torch.zeros(layer.channels.n))
    n_visits = edit.add_buffer(f"{layer.parameter}.n_visits", torch.zeros(layer.channels.n, dtype=torch.int64))
    nodes = (index, square_grad, score, n_visits)
    mutated += [(node, f"{layer.parameter}.{kind}") for kind, node in zip(INDEX_STATE, nodes, strict=True)]
    return ChosenChannels(index, square_grad, layer.channels.axis, layer.channels.block)


def _blocks(edit: GraphEditor, grad: Node, activation_bytes: int) -> Iterator[tuple[Rows, Node]]:
    blocks = n_blocks(grad, activation_bytes)
    if blocks == 1:
        yield Rows(), grad
        return
    for first_row, block in split_gradient(edit, grad, blocks):
        for node in (block, *block.all_input_nodes):
            node.meta.setdefault("daf_phase", "backward")
        yield Rows(first_row), block


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
