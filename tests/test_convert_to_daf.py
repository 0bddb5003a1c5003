"""What ATen's operators become, and what is saved between forward and backward because of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from exports import ConvNet, calls, canonical, conv_batch, converted, mlp_batch, operators, output_sum, without_noops
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from daf.exporter.find_saved import find_saved
from daf.exporter.graph import inputs_of_kind, module_path, source_line
from daf.exporter.passes.convert_to_daf import convert_to_daf
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf

MAP = (torch.ones(2, 3, 8, 8), torch.ones(2))


def after_conv(layer: nn.Module) -> nn.Module:
    """A convolution in front, so that the layer has a backward."""
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer)


def test_a_small_cnn_is_made_of_daf_operators() -> None:
    program = converted(ConvNet(), conv_batch())
    verify(program, "convert_to_daf")
    left = {name for name in operators(program) if not name.startswith("daf::")}
    # The counter of BatchNorm, the shape of the features, and the gradient of the loss itself.
    assert left == {"aten::add", "aten::view", "aten::full_like", "aten::permute"}


def test_provenance_is_copied_to_the_new_nodes() -> None:
    program = without_noops(ConvNet(), conv_batch())
    (before,) = calls(program, aten.convolution_backward.default)
    expected = module_path(before), source_line(before)
    convert_to_daf(program)
    (after,) = calls(program, daf.convolution_weight_grad.default)
    assert (module_path(after), source_line(after)) == expected
    assert expected[0] == "conv"


# ---- dropout ----------------------------------------------------------------------------------------------------


def test_backward_of_dropout_is_the_same_dropout() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(6, 8)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = F.dropout(F.relu(self.hidden(x)), 0.25)
            return F.dropout(self.head(x), 0.5)

    program = canonical(Net(), mlp_batch())
    dropouts = calls(program, daf.dropout.default)
    # (p, number): two in forward, then backward in reverse.
    assert [node.args[2:] for node in dropouts] == [(0.25, 0), (0.5, 1), (0.5, 1), (0.25, 0)]
    clocks = {node.args[1] for node in dropouts}
    assert [clock.meta["daf_runtime_input"] for clock in clocks] == ["clock"]
    assert list(inputs_of_kind(program, InputKind.USER_INPUT).values())[-1] in clocks
    assert not [name for name in operators(program) if "dropout" in name and name != "daf::dropout"]
    saved = find_saved(program)
    assert not [s for s in saved if s.node.meta["val"].dtype in (torch.bool, torch.uint8)], "no mask is kept"


# ---- convolution ------------------------------------------------------------------------------------------------


def test_a_transposed_convolution_is_an_input_gradient() -> None:
    program = canonical(nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), MAP, output_sum)
    (forward,) = calls(program, daf.convolution_input_grad.default)
    weight = inputs_of_kind(program, InputKind.PARAMETER)["weight"]
    assert forward.args[1] is weight
    assert forward.args[3] == [18, 18], "the size includes the output padding"
    (weight_grad,) = calls(program, daf.convolution_weight_grad.default)
    x = inputs_of_kind(program, InputKind.USER_INPUT)["batch_0"]
    assert weight_grad.args[0] is x, "x is on the output side of the ordinary convolution"
    assert weight_grad.meta["val"].shape == weight.meta["val"].shape


def test_backward_of_a_convolution_makes_only_what_is_needed() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 2, 3))
    model[1].weight.requires_grad_(False)
    program = canonical(model, MAP, output_sum)
    assert len(calls(program, daf.convolution_input_grad.default)) == 1, "nobody reads the gradient of the data"
    assert len(calls(program, daf.convolution_weight_grad.default)) == 1, "the second weight is frozen"
    assert len(calls(program, daf.sum_axes.default)) == 2, "the loss, and the gradient of the only bias"


def test_the_weight_gradient_comes_after_the_input_gradient() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3))
    names = operators(canonical(model, MAP, output_sum))
    first = names.index("daf::convolution_weight_grad")
    assert names.index("daf::convolution_input_grad") < first


def test_convolution_in_three_dimensions_is_left() -> None:
    program = canonical(nn.Conv3d(1, 2, 2), (torch.ones(1, 1, 3, 3, 3), torch.ones(1)), output_sum)
    assert calls(program, aten.convolution.default)


# ---- pooling ----------------------------------------------------------------------------------------------------


def test_max_pooling_saves_small_offsets_and_not_its_input() -> None:
    program = canonical(after_conv(nn.MaxPool2d(2)), MAP, output_sum)
    (forward,) = calls(program, daf.max_pool2d.default)
    (backward,) = calls(program, daf.max_pool2d_backward.default)
    assert backward.args[1].meta["val"].dtype == torch.uint8
    assert backward.args[1].args == (forward, 1)
    pooled = forward.args[0]
    assert pooled not in backward.all_input_nodes
    assert [s.node for s in find_saved(program)] == [backward.args[1]], "the map itself is not kept"


def test_max_pooling_over_large_windows_has_wider_offsets() -> None:
    program = canonical(after_conv(nn.MaxPool2d(17)), (torch.ones(1, 3, 17, 17), torch.ones(1)), output_sum)
    assert calls(program, daf.max_pool2d_backward.default)[0].args[1].meta["val"].dtype == torch.int32


def test_average_pooling_saves_nothing() -> None:
    for layer in (nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3)):
        program = canonical(after_conv(layer), MAP, output_sum)
        assert [s.raw_bytes for s in find_saved(program)] == [], layer


# ---- activations and normalisation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "kind", "saves_output"),
    [
        (F.relu, ("relu", 0.0, 0.0), True),
        (F.relu6, ("hardtanh", 0.0, 6.0), True),
        (lambda x: F.leaky_relu(x, 0.2), ("leaky_relu", 0.2, 0.0), False),
        (lambda x: F.elu(x, 0.7), ("elu", 0.7, 0.0), False),
        (torch.sigmoid, ("sigmoid", 0.0, 0.0), True),
        (torch.tanh, ("tanh", 0.0, 0.0), True),
        (F.hardswish, ("hardswish", 0.0, 0.0), False),
        (F.gelu, ("gelu", 0.0, 0.0), False),
        (lambda x: F.gelu(x, approximate="tanh"), ("gelu_tanh", 0.0, 0.0), False),
    ],
)
def test_activations(function: Callable[[Tensor], Tensor], kind: tuple[str, float, float], saves_output: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return function(self.layer(x))

    program = canonical(Net(), mlp_batch(), output_sum)
    (forward,) = calls(program, daf.activation.default)
    (backward,) = calls(program, daf.activation_backward.default)
    assert forward.args[1:] == backward.args[2:] == kind
    assert backward.args[1] is (forward if saves_output else forward.args[0])


def test_batch_norm_in_training_keeps_its_statistics() -> None:
    program = canonical(ConvNet(), conv_batch())
    (forward,) = calls(program, daf.batch_norm_train.default)
    (backward,) = calls(program, daf.batch_norm_backward.default)
    assert [argument.args for argument in backward.args[3:5]] == [(forward, 1), (forward, 2)]
    assert backward.args[5] is True


def test_a_frozen_batch_norm_uses_the_running_statistics() -> None:
    model = ConvNet()
    model.bn.eval()
    program = canonical(model, conv_batch())
    assert not calls(program, daf.batch_norm_train.default)
    (backward,) = calls(program, daf.batch_norm_backward.default)
    buffers = inputs_of_kind(program, InputKind.BUFFER)
    assert backward.args[3:6] == (buffers["bn.running_mean"], buffers["bn.running_var"], False)


def test_other_types_are_left_to_executorch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.layer(x).double())

    program = canonical(Net(), mlp_batch(), output_sum)
    assert calls(program, aten.tanh.default)
    assert not calls(program, daf.activation.default)
    assert calls(program, daf.gemm.default)
