"""The captured graph: what it refuses, what it remembers of the user's model, and that the model stays as it was."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exports import ConvNet, Mlp, calls, captured, conv_batch, mlp_batch
from torch import Tensor, nn
from torch.export.graph_signature import OutputKind

from daf.errors import Exit, UserError
from daf.exporter.capture import capture_predict, capture_training, input_names
from daf.exporter.graph import gradients, inputs_of_kind, loss_node, module_path, source_line

aten = torch.ops.aten


def refused(exit_code: Exit, action: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        action()
    assert caught.value.exit_code == exit_code
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- the loss ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (lambda o, t: F.cross_entropy(o, t, reduction="none"), "it returned a tensor of shape [5], not a scalar"),
        (lambda o, t: 3.0, "it returned float, not a scalar tensor"),
        (lambda o, t: None, "it returned NoneType, not a scalar tensor"),
        (lambda o, t: F.cross_entropy(o.detach(), t), "it does not depend on any trainable parameter"),
        (lambda o, t: o.argmax(), "it does not depend on any trainable parameter"),
    ],
)
def test_unusable_loss(loss: Callable[[Tensor, Tensor], Tensor], told: str) -> None:
    message = refused(Exit.MODEL, lambda: captured(Mlp(), mlp_batch(), loss))
    assert message.startswith("cannot train on loss(): ")
    assert told in message


def test_model_and_batch_that_do_not_fit() -> None:
    message = refused(Exit.MODEL, lambda: captured(Mlp(), (torch.ones(5, 7), torch.zeros(5, dtype=torch.int64))))
    assert message.startswith("cannot run the model on its batch: RuntimeError: mat1 and mat2 shapes cannot be multi")
    assert message.endswith("model(), batch() and loss() of the model file must fit together")


# ---- what depends on the data -----------------------------------------------------------------------------------


class Branch(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x * 2
        return super().forward(x)


class Selection(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        positive = x[x[:, 0] > 0]
        return super().forward(x) + positive.sum()


class Number(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        largest = x.max().item()
        return super().forward(x / largest)


class SizeFromData(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        n = int(x[0, 0].item())
        return super().forward(x)[:, :n] * 2


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (Branch, "if x.sum() > 0:"),
        (Selection, "positive = x[x[:, 0] > 0]"),
        (Number, "largest = x.max().item()"),
        (SizeFromData, "n = int(x[0, 0].item())"),
    ],
)
def test_data_dependence_names_the_users_line(
    model: type[nn.Module], code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    batch = (torch.ones(5, 6) * 2, torch.zeros(5, dtype=torch.int64))
    message = refused(Exit.UNSUPPORTED, lambda: captured(model(), batch, lambda o, t: o.sum()))
    assert "a shape, a branch or a number depends on the data" in message
    assert f"({__file__}:{line_of(code)}: {code})" in message
    assert capfd.readouterr() == ("", ""), "torch prints nothing of its own"


def line_of(code: str) -> int:
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, start=1) if text.strip() == code)


class LayerDrop(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (random.random() < 0.9)


class NumpyNoise(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * float(np.random.uniform(0.9, 1.1))


@pytest.mark.parametrize("model", [LayerDrop, NumpyNoise])
def test_random_numbers_of_python_would_be_constants(model: type[nn.Module]) -> None:
    message = refused(Exit.UNSUPPORTED, lambda: captured(model(), mlp_batch()))
    assert "draws random numbers with Python or NumPy" in message


class ReplacedBuffer(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.average = 0.9 * self.average + 0.1 * x.mean(0)
        return super().forward(x - self.average)


def test_a_replaced_buffer_would_not_be_updated() -> None:
    message = refused(Exit.UNSUPPORTED, lambda: captured(ReplacedBuffer(), mlp_batch()))
    assert "forward() replaces its buffer average" in message


class Detached(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.before(x).detach())


def test_a_parameter_without_gradient_is_named() -> None:
    message = refused(Exit.MODEL, lambda: captured(Detached(), mlp_batch()))
    assert "cannot train before.weight: the loss does not depend on it, or only through detach()" in message


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return 3.0 * grads[0]


class OwnGradient(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = Tripled.apply(super().forward(x))
        return y


def test_a_gradient_of_its_own_is_not_lost_in_silence() -> None:
    message = refused(Exit.UNSUPPORTED, lambda: captured(OwnGradient(), mlp_batch()))
    assert "it has a torch.autograd.Function, whose own gradient torch.export does not keep" in message


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs()


def test_complex_numbers_are_unsupported() -> None:
    model = nn.Sequential(Spectrum(), nn.Linear(4, 6))
    batch = (torch.ones(2, 6), torch.zeros(2, dtype=torch.int64))
    message = refused(Exit.UNSUPPORTED, lambda: captured(model, batch))
    code = "return torch.fft.rfft(x).abs()"
    assert "needs aten::_fft_r2c, for which the runtime has no kernel" in message
    assert f"in module 0 ({__file__}:{line_of(code)}: {code})" in message


# ---- what the graph remembers -----------------------------------------------------------------------------------


def test_forward_and_backward_nodes_know_module_and_line() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stage = nn.Sequential(ConvNet(), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.stage(x)
            return logits

    program = captured(Net(), conv_batch())
    (forward,) = calls(program, aten.convolution.default)
    (backward,) = calls(program, aten.convolution_backward.default)
    assert module_path(forward) == module_path(backward) == "stage.0.conv"
    assert module_path(calls(program, aten.native_batch_norm_backward.default)[0]) == "stage.0.bn"
    code = "logits: Tensor = self.fc(F.relu(self.bn(self.conv(x))).flatten(1))"
    assert source_line(forward) == source_line(backward)
    assert source_line(forward).split("/")[-1].startswith("exports.py:")
    assert source_line(forward).endswith(f": {code}")


def test_state_has_the_users_own_names() -> None:
    model = ConvNet()
    program = captured(model, conv_batch())
    assert set(program.state_dict) == set(model.state_dict())
    assert set(gradients(program)) == {name for name, _ in model.named_parameters()}
    predict = capture_predict(model, conv_batch()[:1], dynamic_batch=False)
    assert set(predict.state_dict) == set(model.state_dict())
    mutated = [s.target for s in program.graph_signature.output_specs if s.kind == OutputKind.BUFFER_MUTATION]
    assert sorted(map(str, mutated)) == sorted(name for name, _ in model.named_buffers())


def test_a_frozen_parameter_has_no_gradient() -> None:
    model = Mlp()
    model.hidden.requires_grad_(False)
    program = captured(model, mlp_batch())
    assert set(gradients(program)) == {"head.weight", "head.bias"}
    assert not calls(program, aten.threshold_backward.default), "backward ends where nothing below is trained"


def test_autograd_level_operators_stay_whole() -> None:
    program = captured(ConvNet(), conv_batch())
    assert loss_node(program).meta["val"].shape == ()
    for operator in (
        aten.convolution_backward.default,
        aten.native_batch_norm_backward.default,
        aten.threshold_backward.default,
        aten.nll_loss_backward.default,
        aten._log_softmax_backward_data.default,
    ):
        assert len(calls(program, operator)) == 1, operator


# ---- the model stays as it was ----------------------------------------------------------------------------------


def test_modes_and_buffers_are_left_alone() -> None:
    model = nn.Sequential(ConvNet(), nn.Dropout(0.5), nn.BatchNorm1d(3))
    model[2].eval()  # a frozen norm
    before = copy.deepcopy(model.state_dict())
    capture_training(model, conv_batch(), F.cross_entropy, dynamic_batch=False)
    capture_predict(model, conv_batch()[:1], dynamic_batch=False)
    assert [module.training for module in model] == [True, True, False]
    assert model[0].bn.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())


def test_predict_is_captured_in_evaluation_mode() -> None:
    program = capture_predict(nn.Sequential(ConvNet(), nn.Dropout(0.5)), conv_batch()[:1], dynamic_batch=False)
    assert calls(program, aten._native_batch_norm_legit_no_training.default)
    assert not any(s.kind == OutputKind.BUFFER_MUTATION for s in program.graph_signature.output_specs)


# ---- inputs -----------------------------------------------------------------------------------------------------


def test_input_names() -> None:
    class Two(nn.Module):
        def forward(self, ids: Tensor, mask: Tensor, *, scale: float = 1.0) -> Tensor:
            return ids * mask * scale

    class Any(nn.Module):
        def forward(self, *tensors: Tensor) -> Tensor:
            return tensors[0]

    class Optional(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return x

    assert input_names(Two(), 2) == ["ids", "mask", "target"]
    assert input_names(Any(), 2) == ["input0", "input1", "target"]
    assert input_names(Optional(), 1) == ["x", "target"]


def test_dynamic_batch_of_one_is_a_fixed_batch() -> None:
    program = capture_training(Mlp(), mlp_batch(1), F.cross_entropy, dynamic_batch=True)
    assert all(isinstance(size, int) for node in inputs(program) for size in node.meta["val"].shape)


def test_dynamic_batch_is_symbolic() -> None:
    program = capture_training(Mlp(), mlp_batch(4), F.cross_entropy, dynamic_batch=True)
    assert all(isinstance(node.meta["val"].shape[0], torch.SymInt) for node in inputs(program))


def inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    from torch.export.graph_signature import InputKind

    return list(inputs_of_kind(program, InputKind.USER_INPUT).values())
