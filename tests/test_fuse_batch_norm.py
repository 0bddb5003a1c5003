from __future__ import annotations

import torch
from exports import ConvNet, calls, canonical, conv_batch, output_sum
from torch import Tensor, nn

from daf.exporter.capture import capture_predict
from daf.exporter.find_saved import find_saved
from daf.exporter.passes.convert_to_daf import convert_to_daf
from daf.exporter.passes.fuse_batch_norm import fuse_batch_norm
from daf.exporter.verify import verify

daf = torch.ops.daf


def test_relu_is_part_of_the_normalisation_forward_and_backward() -> None:
    program = canonical(ConvNet(), conv_batch())
    saved = find_saved(program)
    fuse_batch_norm(program)
    verify(program, "fuse_batch_norm")
    (forward,) = calls(program, daf.batch_norm_activation_train.default)
    (backward,) = calls(program, daf.batch_norm_activation_backward.default)
    assert forward.args[-3:] == backward.args[-3:] == ("relu", 0.0, 0.0)
    assert backward.args[1].args == (forward, 0), "the output tells where ReLU stopped the gradient"
    assert not calls(program, daf.activation.default, daf.activation_backward.default, daf.batch_norm_train.default)
    assert {s.node for s in find_saved(program)} != set()
    assert len(find_saved(program)) == len(saved), "no more is kept than before"


def test_a_normalised_value_that_others_read_stays() -> None:
    class Net(ConvNet):
        def forward(self, x: Tensor) -> Tensor:
            y = self.bn(self.conv(x))
            return torch.relu(y) + y

    program = canonical(Net(), conv_batch(), output_sum)
    find_saved(program)
    fuse_batch_norm(program)
    assert not calls(program, daf.batch_norm_activation_train.default, daf.batch_norm_activation_backward.default)


def test_other_activations_stay() -> None:
    class Net(ConvNet):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.silu(self.bn(self.conv(x)))

    program = canonical(Net(), conv_batch(), output_sum)
    find_saved(program)
    fuse_batch_norm(program)
    assert not calls(program, daf.batch_norm_activation_train.default, daf.batch_norm_activation_backward.default)


def test_prediction_with_constant_statistics() -> None:
    program = capture_predict(ConvNet().eval(), conv_batch()[:1], dynamic_batch=False)
    convert_to_daf(program)
    fuse_batch_norm(program)
    verify(program, "fuse_batch_norm")
    assert calls(program, daf.batch_norm_activation_eval.default)
    assert not calls(program, daf.batch_norm_eval.default, daf.activation.default)
