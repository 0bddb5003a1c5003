from __future__ import annotations

import torch
import torch.nn.functional as F
from exports import calls, canonical, mlp_batch, output_sum
from torch import Tensor, nn

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fuse_silu_backward import fuse_silu_backward
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.gate(x))


def test_the_backward_of_silu_is_one_operator() -> None:
    program = canonical(Gate(), mlp_batch(), output_sum)
    fuse_silu_backward(program)
    verify(program, "fuse_silu_backward")
    (backward,) = calls(program, daf.activation_backward.default)
    (forward,) = calls(program, daf.activation.default)
    assert forward.args[1] == "silu"
    assert backward.args[1:] == (forward.args[0], "silu", 0.0, 0.0)
    assert not calls(program, aten.mul.Tensor, aten.sub.Tensor, aten.add.Scalar)
    assert [s.node for s in find_saved(program)] == [forward.args[0]]


def test_another_product_with_a_sigmoid_stays() -> None:
    class Net(Gate):
        def forward(self, x: Tensor) -> Tensor:
            y = self.gate(x)
            return torch.sigmoid(y) * (y * (2 - torch.sigmoid(y)) + 1)

    program = canonical(Net(), mlp_batch(), output_sum)
    n_products = len(calls(program, aten.mul.Tensor))
    fuse_silu_backward(program)
    assert len(calls(program, aten.mul.Tensor)) == n_products
