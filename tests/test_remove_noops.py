from __future__ import annotations

import torch
from exports import calls, captured, output_sum, without_noops
from torch import Tensor, nn

from daf.exporter.passes.remove_noops import remove_noops
from daf.exporter.verify import verify

aten = torch.ops.aten
BATCH = (torch.ones(2, 3), torch.ones(2))


class Renamings(nn.Module):
    """Every way to write x as something else that is x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.weight
        x = x.clone().contiguous().view(2, 3).reshape(2, 3).expand(2, 3)
        x = x.to(torch.float32)[:, 0:3]
        return nn.functional.pad(x, (0, 0))


def test_renamings_are_gone() -> None:
    program = captured(Renamings(), BATCH, output_sum)
    assert calls(program, aten.clone.default, aten.view.default, aten.slice.Tensor, aten.expand.default)
    remove_noops(program)
    verify(program, "remove_noops")
    (product, *_) = calls(program, aten.mul.Tensor)
    reading = [user.target for user in product.users]
    assert reading == [aten.sum.dim_IntList], "the sum reads the product itself"
    renaming = (aten.clone.default, aten.slice.Tensor, aten._to_copy.default, aten.constant_pad_nd.default)
    assert not calls(program, *renaming, aten.alias.default, aten.detach.default)


def test_what_changes_shape_or_type_stays() -> None:
    class Net(Renamings):
        def forward(self, x: Tensor) -> Tensor:
            x = (x * self.weight).view(3, 2)[1:].expand(4, 2, 2)
            return nn.functional.pad(x, (1, 0)).double()

    program = without_noops(Net(), BATCH, output_sum)
    for operator in (aten.view.default, aten.slice.Tensor, aten.expand.default, aten.constant_pad_nd.default):
        assert calls(program, operator), operator
    assert [node.meta["val"].dtype for node in calls(program, aten._to_copy.default)] == [torch.float64, torch.float32]


def test_disabled_dropout_is_gone() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0), nn.Linear(3, 3))
    program = without_noops(model, BATCH, output_sum)
    assert not calls(program, aten.native_dropout.default)


def test_a_value_that_is_an_output_keeps_the_signature_right() -> None:
    """The gradient of a bias under a sum is an expanded one, renamed on its way out."""
    model = nn.Sequential(nn.Linear(3, 3))
    program = without_noops(model, BATCH, output_sum)
    verify(program, "remove_noops")
    outputs = {spec.arg.name for spec in program.graph_signature.output_specs}
    assert outputs <= {node.name for node in program.graph.nodes}
