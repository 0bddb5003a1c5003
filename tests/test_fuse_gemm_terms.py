from __future__ import annotations

import torch
from exports import calls, canonical, output_sum
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fuse_gemm_terms import fuse_gemm_terms
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 6)
        self.down = nn.Linear(6, 2, bias=False)
        self.up = nn.Linear(2, 6, bias=False)


BATCH = (torch.ones(2, 5, 6), torch.ones(2))


def fused(model: nn.Module) -> ExportedProgram:
    program = canonical(model, BATCH, output_sum)
    find_saved(program)
    fuse_gemm_terms(program)
    verify(program, "fuse_gemm_terms")
    return program


def test_lora_is_added_to_its_base_layer_by_the_product() -> None:
    class Net(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.base(x) + 4.0 * self.up(self.down(x)))

    program = fused(Net())
    forward, *backward = calls(program, daf.gemm_add.default)
    base = forward.args[3].args[0].args[0]  # through two views
    assert base.target is daf.gemm.default
    assert base.args[2] is not None, "the base layer keeps its bias"
    assert forward.args[6] == 4.0
    assert {node.args[6] for node in backward} == {4.0}, "the factor of the gradient, too"
    assert not calls(program, aten.mul.Tensor)
    assert not calls(program, aten.add.Tensor)


def test_gradients_of_a_value_read_twice_are_added_by_the_product_that_comes_last() -> None:
    class Net(Layers):
        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.tanh(self.base(x))
            return torch.tanh(self.down(hidden)).sum() + torch.sin(hidden).sum()

    program = fused(Net())
    (total,) = calls(program, daf.gemm_add.default)
    assert total.args[6] == 1.0
    assert not calls(program, aten.add.Tensor)[1:], "but for the sum in the loss"


def test_a_product_that_is_kept_for_backward_stays() -> None:
    class Net(Layers):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.base(x)
            return (hidden.exp() * (hidden * 2.0)).sin()

    program = fused(Net())
    assert not [node for node in calls(program, daf.gemm_add.default) if node.meta["daf_phase"] == "forward"]


def test_a_bias_is_not_scaled_with_the_product() -> None:
    class Net(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(3.0 * self.base(x))

    program = fused(Net())
    (scaling,) = [node for node in calls(program, aten.mul.Tensor) if node.meta["daf_phase"] == "forward"]
    assert scaling.args[1] == 3.0


def test_broadcast_sums_stay() -> None:
    class Net(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.down(x) + torch.ones(5, 1))

    program = fused(Net())
    assert calls(program, aten.add.Tensor)
    assert not [node for node in calls(program, daf.gemm_add.default) if node.args[3] is not None]
