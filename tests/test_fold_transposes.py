from __future__ import annotations

import torch
import torch.nn.functional as F
from exports import Mlp, calls, canonical, converted, mlp_batch, output_sum
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from daf.exporter.graph import inputs_of_kind
from daf.exporter.passes.fold_transposes import fold_transposes
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))


BATCH = (torch.ones(2, 3), torch.ones(2))


def test_no_weight_of_an_mlp_is_transposed() -> None:
    program = converted(Mlp(), mlp_batch())
    assert calls(program, aten.permute.default)
    fold_transposes(program)
    verify(program, "fold_transposes")
    assert not calls(program, aten.permute.default, aten.t.default, aten.transpose.int)
    hidden = inputs_of_kind(program, InputKind.PARAMETER)["hidden.weight"]
    forward, *_ = calls(program, daf.gemm.default)
    assert forward.args[1] is hidden
    assert forward.args[3:] == (False, True), "x @ weight.T"


def test_gradients_of_weights_are_made_as_they_lie() -> None:
    """grad.T @ x, and not the transpose of x.T @ grad: no copy on the way to the optimizer."""
    program = canonical(Mlp(), mlp_batch())
    products = {tuple(node.meta["val"].shape): node for node in calls(program, daf.gemm.default)}
    assert products[(8, 6)].args[3:] == (True, False)
    assert products[(3, 8)].args[3:] == (True, False)


def test_double_transposes_cancel() -> None:
    class Net(Products):
        def forward(self, x: Tensor) -> Tensor:
            return x.t().t() @ self.weight.t().t()

    program = canonical(Net(), BATCH, output_sum)
    assert not calls(program, aten.permute.default)
    assert all(node.args[3] is False for node in calls(program, daf.gemm.default)[:1])


def test_permutes_in_a_row_become_one() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.weight.permute(1, 2, 0).permute(1, 2, 0)) * x

    program = canonical(Net(), (torch.ones(4, 2, 3), torch.ones(4)), output_sum)
    verify(program, "fold_transposes")
    permutes = [node for node in calls(program, aten.permute.default) if node.args[0].op == "placeholder"]
    assert [node.args[1] for node in permutes] == [[2, 0, 1]]
    assert permutes[0].meta["val"].shape == (4, 2, 3)


def test_batched_products_swap_the_last_two_axes_only() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(5, 4, 3))

        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(x, self.weight.transpose(1, 2)) + torch.bmm(
                x, self.weight.reshape(4, 5, 3).permute(1, 2, 0)
            )

    program = canonical(Net(), (torch.ones(5, 2, 3), torch.ones(5)), output_sum)
    weight = inputs_of_kind(program, InputKind.PARAMETER)["weight"]
    transposed, permuted, *_ = calls(program, daf.gemm.default)
    assert transposed.args[1] is weight
    assert transposed.args[4] is True
    assert permuted.args[1].target is aten.permute.default, "the batch axis moves: that is a real copy"
    assert permuted.args[4] is False


def test_a_transposed_value_that_others_read_stays_for_them() -> None:
    class Net(Products):
        def forward(self, x: Tensor) -> Tensor:
            turned = F.relu(self.weight).t()
            return (x @ turned.t()).sum() + turned.exp().sum()

    program = canonical(Net(), BATCH, output_sum)
    (turned,) = [node for node in calls(program, aten.permute.default) if node.args[0].target is daf.activation.default]
    assert [user.target for user in turned.users] == [aten.exp.default]
