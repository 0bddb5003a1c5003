from __future__ import annotations

import torch
import torch.nn.functional as F
from exports import Mlp, calls, canonical, mlp_batch, output_sum
from torch import Tensor

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fuse_activation import fuse_activation
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


def test_relu_of_a_layer_is_done_by_its_product() -> None:
    program = canonical(Mlp(), mlp_batch())
    find_saved(program)
    fuse_activation(program)
    verify(program, "fuse_activation")
    (fused,) = calls(program, daf.gemm_activation.default)
    assert fused.args[2] is not None, "with its bias"
    assert fused.args[3:] == (False, True, "relu", 0.0, 0.0)
    assert not calls(program, daf.activation.default)
    assert calls(program, daf.activation_backward.default)[0].args[1] is fused


def test_relu_of_rows_in_a_batch_keeps_the_shape() -> None:
    program = canonical(Mlp(), (torch.ones(2, 4, 6), torch.ones(2)), output_sum)
    find_saved(program)
    fuse_activation(program)
    verify(program, "fuse_activation")
    (fused,) = calls(program, daf.gemm_activation.default)
    assert [user.meta["val"].shape for user in fused.users][:1] == [(2, 4, 8)]


def test_residual_sums() -> None:
    class Net(Mlp):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.sin(self.hidden(x))
            return self.head(F.relu6(y + torch.cos(y)))

    program = canonical(Net(), mlp_batch())
    find_saved(program)
    fuse_activation(program)
    verify(program, "fuse_activation")
    (fused,) = calls(program, daf.add_activation.default)
    assert fused.args[2:] == ("hardtanh", 0.0, 6.0)


def test_broadcast_sums_and_values_that_others_read_stay() -> None:
    class Net(Mlp):
        def forward(self, x: Tensor) -> Tensor:
            y = self.hidden(x)
            return F.relu(y) + y + F.relu(torch.sin(y) + torch.ones(8))

    program = canonical(Net(), mlp_batch(), output_sum)
    find_saved(program)
    fuse_activation(program)
    assert not calls(program, daf.gemm_activation.default, daf.add_activation.default)
