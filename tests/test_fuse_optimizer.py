"""The optimizer inside the graph: where the updates are, what they free, and that they are PyTorch's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch
from exports import ConvNet, arena_of, canonical, conv_batch, copy_of, fused, mlp_graph, output_sum, resnet_graph
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from training import Export, export_model, train_eager, train_program, weight_errors
from zoo_settings import SMALL

from daf.exporter.fuse_optimizer import AdamW, NoOptimizer, Optimizer, Sgd, describe, fuse_optimizer
from daf.exporter.graph import gradients, inputs_of_kind
from daf.exporter.verify import verify

OPTIMIZERS = [Sgd(momentum=0.0), Sgd(), AdamW()]


class Reused(nn.Module):
    """A weight that is read twice in forward, once through a view, and again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3, 6))
        self.bias = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.view(6, 6)
        return torch.tanh(torch.tanh(x @ weight + self.bias) @ weight) * self.weight.sum()


class Products(nn.Module):
    """The gradient of `second` is made before backward reads `second` for the last time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(6, 3))
        self.second = nn.Parameter(torch.ones(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.first) @ self.second


def updates_of(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.meta.get("daf_phase") == "update"]


def readers(value: Node) -> set[Node]:
    """Everything that reads the memory of a value: a view passes it on."""
    found: set[Node] = set()
    for user in value.users:
        if user.op == "call_function" and user.meta.get("daf_phase") != "update":
            found.add(user)
            if "view" in str(user.target):
                found |= readers(user)
    return found


@pytest.fixture(scope="module", params=["mlp", "conv", "reused", "products"])
def program(request: pytest.FixtureRequest) -> ExportedProgram:
    """A canonical training graph. Shared: copy it before changing it."""
    if request.param == "mlp":
        return mlp_graph()
    if request.param == "conv":
        return canonical(ConvNet(), conv_batch())
    model = Reused() if request.param == "reused" else Products()
    return canonical(model, (torch.ones(4, 6), torch.ones(4)), output_sum)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["sgd", "momentum", "adamw"])
def test_every_weight_has_one_update_in_its_place(program: ExportedProgram, optimizer: Sgd | AdamW) -> None:
    edge = fused(program, NoOptimizer())
    names = {weight.name: name for name, weight in inputs_of_kind(edge, InputKind.PARAMETER).items()}
    gradient_names = {name: node.name for name, node in gradients(edge).items()}
    edge = fused(program, optimizer)
    verify(edge, "fuse the optimizer")
    order = {node: i for i, node in enumerate(edge.graph.nodes)}
    updates = updates_of(edge)
    assert sorted(names[update.args[0].name] for update in updates) == sorted(names.values())
    for update in updates:
        weight, state = update.args[0], update.args[1 : 1 + len(optimizer.slots)]
        gradient = update.args[1 + len(optimizer.slots)]
        assert gradient.name == gradient_names[names[weight.name]]
        assert order[update] > order[gradient]
        assert order[update] > max(order[reader] for reader in readers(weight))
        assert [node.op for node in state] == ["placeholder"] * len(optimizer.slots)
        assert all(node.meta["val"].shape == weight.meta["val"].shape for node in state)


def test_an_update_comes_at_once() -> None:
    """Between the last reader of weight and gradient, and the update, there are only updates."""
    edge = fused(mlp_graph(), Sgd())
    order = {node: i for i, node in enumerate(edge.graph.nodes)}
    updates = updates_of(edge)
    for update in updates:
        ready = max(order[node] for node in (update.args[2], *readers(update.args[0])))
        between = list(edge.graph.nodes)[ready + 1 : order[update]]
        assert all(node in updates for node in between), between


def test_gradients_are_outputs_no_more() -> None:
    before = fused(mlp_graph(), NoOptimizer())
    kinds = [spec.kind for spec in before.graph_signature.output_specs]
    assert kinds.count(OutputKind.GRADIENT_TO_PARAMETER) == 4
    after = fused(mlp_graph(), AdamW())
    specs = after.graph_signature.output_specs
    assert [spec.kind for spec in specs] == [OutputKind.BUFFER_MUTATION] * 12 + [OutputKind.LOSS_OUTPUT]
    names = {"hidden.weight", "hidden.bias", "head.weight", "head.bias"}
    slots = {f"{name}.{slot}" for name in names for slot in ("exp_avg", "exp_avg_sq")}
    assert {spec.target for spec in specs[:12]} == names | slots
    assert not inputs_of_kind(after, InputKind.PARAMETER), "what training changes is a buffer"
    assert all(not after.state_dict[name].any() for name in slots), "the optimizer starts from zero"


def test_frozen_weights_stay_constants() -> None:
    model = ConvNet()
    model.conv.requires_grad_(False)
    edge = fused(canonical(model, conv_batch()), Sgd())
    assert list(inputs_of_kind(edge, InputKind.PARAMETER)) == ["conv.weight"]
    assert "conv.weight.momentum_buffer" not in edge.state_dict


@pytest.mark.parametrize(
    ("optimizer", "inputs"),
    [(Sgd(momentum=0.0), ["lr"]), (Sgd(), ["lr", "clock"]), (AdamW(), ["lr", "clock"]), (NoOptimizer(), [])],
)
def test_runtime_inputs_are_those_the_update_reads(optimizer: Optimizer, inputs: list[str]) -> None:
    edge = fused(mlp_graph(), optimizer)
    found = [node.meta.get("daf_runtime_input") for node in inputs_of_kind(edge, InputKind.USER_INPUT).values()]
    assert [name for name in found if name] == inputs


def test_an_update_waits_for_the_last_reader_of_its_weight() -> None:
    edge = fused(canonical(Products(), (torch.ones(4, 6), torch.ones(4)), output_sum), Sgd(momentum=0.0))
    order = {node: i for i, node in enumerate(edge.graph.nodes)}
    update = next(node for node in updates_of(edge) if node.meta["val"].shape == (3, 2))
    weight, gradient = update.args[:2]
    last_reader = max(order[reader] for reader in readers(weight))
    assert order[gradient] < last_reader < order[update]


# ---- without an optimizer ---------------------------------------------------------------------------------------


def test_none_returns_the_gradients(plain_export: Export) -> None:
    manifest = plain_export.written.manifest
    assert manifest["optimizer"] == {"name": "none"}
    outputs = {output["name"]: output["shape"] for output in manifest["methods"]["train_step"]["outputs"]}
    assert outputs.pop("loss") == []
    gradient_shapes = {name: shape for name, shape in outputs.items() if name.startswith("grad:")}
    assert gradient_shapes == {f"grad:{name}": list(p.shape) for name, p in plain_export.model.named_parameters()}


def test_none_suits_executorchs_own_training_module(plain_export: Export) -> None:
    """It finds gradients and parameters among the outputs by three methods that return constants."""
    module = _load_for_executorch(str(plain_export.written.program))
    names = set(module.method_names())
    prefix = "__et_training_{}_train_step"
    training = {prefix.format(kind) for kind in ("gradients_index", "parameters_index", "fqn")}
    assert training <= names
    outputs = [o["name"] for o in plain_export.written.manifest["methods"]["train_step"]["outputs"]]
    (first_gradient,) = module.run_method(prefix.format("gradients_index"), [])
    assert outputs[first_gradient].startswith("grad:")
    (first_parameter,) = module.run_method(prefix.format("parameters_index"), [])
    parameters = [f"param:{name.removeprefix('grad:')}" for name in outputs[first_gradient:first_parameter]]
    assert len(parameters) == len(outputs[first_parameter:]) == 4


# ---- against torch.optim ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [
        Sgd(lr=0.1, momentum=0.0),
        Sgd(lr=0.1, momentum=0.0, weight_decay=0.1),
        Sgd(lr=0.1, momentum=0.9),
        Sgd(lr=0.1, momentum=0.5, weight_decay=0.1),
        Sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        AdamW(lr=0.01),
        AdamW(lr=0.01, weight_decay=0.0),
        AdamW(lr=0.02, beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=0.5),
    ],
    ids=lambda optimizer: "-".join(f"{key}={value}" for key, value in describe(optimizer).items() if key != "lr"),
)
def test_five_steps_are_those_of_torch_optim(optimizer: Sgd | AdamW, tmp_path: Path) -> None:
    export = export_model("mlp_digits", tmp_path, optimizer, SMALL["mlp_digits"])
    program = train_program(export, 5)
    exact = train_eager(export, optimizer, 5, double=True)
    assert program.losses == pytest.approx(exact.losses, rel=1e-5)
    # AdamW's first steps divide a gradient by itself: where it is rounding noise, so is the step.
    errors = weight_errors(program.weights, exact.weights)
    assert max(errors.values()) < (1e-5 if isinstance(optimizer, Sgd) else 1e-4), errors
    moved = weight_errors({n: p.detach().double() for n, p in export.model.named_parameters()}, exact.weights)
    assert min(moved.values()) > 1e-3, "the steps were large enough to tell optimizers apart"


# ---- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch_size", "part_saved"), [(1, 0.84), (8, 0.5)])
def test_gradients_do_not_pile_up(batch_size: int, part_saved: float) -> None:
    """Without the optimizer all gradients are alive at the end of backward; with it, a block of one at a time.

    Activations are freed while gradients pile up, so what is saved at the peak is less than all of them: at most 90 %
    of the parameters at batch 1, and 69 % at batch 8, even if gradients took no memory at all.
    """
    edge = fused(resnet_graph(batch_size), NoOptimizer())
    sizes = [node.meta["val"].numel() * 4 for node in gradients(edge).values()]
    trained = set(gradients(edge))
    without = arena_of(copy_of(edge), trained)
    fuse_optimizer(edge, Sgd(), activation_bytes=batch_size * 1_170_000)
    with_sgd = arena_of(edge, trained)
    saved = without.planned_bytes - with_sgd.planned_bytes
    report = {"parameters": sum(sizes), "largest": max(sizes), "sgd": with_sgd, "none": without, "saved": saved}
    print(report)
    assert saved > part_saved * sum(sizes), report
    assert with_sgd.gradients_bytes <= max(sizes) / 2, report
