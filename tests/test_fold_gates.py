from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from exports import calls, canonical, mlp_batch, output_sum
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fold_gates import fold_gates
from daf.exporter.passes.fuse_silu_backward import fuse_silu_backward
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Gated(nn.Module):
    def __init__(self, activation: Callable[[Tensor], Tensor] = F.silu) -> None:
        super().__init__()
        self.activation = activation
        self.gate, self.up = nn.Linear(6, 8), nn.Linear(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.gate(x)) * self.up(x)


def captured(model: nn.Module) -> ExportedProgram:
    program = canonical(model, mlp_batch(), output_sum)
    fuse_silu_backward(program)
    return program


@pytest.mark.parametrize("activation", [F.silu, F.gelu])
def test_one_tensor_is_kept_for_gate_and_factor(activation: Callable[[Tensor], Tensor]) -> None:
    program = captured(Gated(activation))
    assert len(find_saved(program)) == 3
    fold_gates(program)
    verify(program, "fold_gates")
    (forward,) = calls(program, daf.activation.default)
    (derivative,) = calls(program, daf.activation_derivative.default)
    (backward,) = calls(program, daf.activation_backward.default)
    product = backward.args[1]
    assert backward.args[2] == "exp"
    assert product.args[0] is derivative
    assert {saved.node for saved in find_saved(program)} == {forward, product}


@pytest.mark.parametrize("activation", [torch.tanh, torch.sigmoid])
def test_the_output_of_a_function_that_is_kept_anyway_does_for_its_derivative(
    activation: Callable[[Tensor], Tensor],
) -> None:
    program = captured(Gated(activation))
    saved = find_saved(program)
    assert len(saved) == 2
    fold_gates(program)
    assert find_saved(program) == saved


def test_a_factor_that_is_read_elsewhere_is_kept_as_it_is() -> None:
    class Net(Gated):
        def forward(self, x: Tensor) -> Tensor:
            up = self.up(x)
            return F.silu(self.gate(x)) * up + up * up

    program = captured(Net())
    saved = find_saved(program)
    fold_gates(program)
    assert not calls(program, daf.activation_derivative.default)
    assert find_saved(program) == saved


def test_a_mask_is_smaller_than_a_product() -> None:
    program = captured(Gated(F.relu))
    fold_gates(program)
    assert not calls(program, daf.activation_derivative.default)
