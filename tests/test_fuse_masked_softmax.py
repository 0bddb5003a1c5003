from __future__ import annotations

import torch
from exports import calls, canonical, output_sum
from torch import Tensor, nn

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fuse_masked_softmax import fuse_masked_softmax
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3, 4))


BATCH = (torch.ones(2, 1, 4), torch.ones(2))


def test_the_mask_is_added_by_the_softmax() -> None:
    class Net(Scores):
        def forward(self, mask: Tensor) -> Tensor:
            return torch.softmax(mask + self.weight.exp(), -1).sin()

    program = canonical(Net(), BATCH, output_sum)
    find_saved(program)
    fuse_masked_softmax(program)
    verify(program, "fuse_masked_softmax")
    (softmax,) = calls(program, daf.masked_softmax.default)
    scores, mask = softmax.args
    assert scores.target is aten.exp.default
    assert mask.op == "placeholder"
    assert not calls(program, daf.softmax.default, aten.add.Tensor)


def test_a_sum_that_others_read_and_other_axes_stay() -> None:
    class Net(Scores):
        def forward(self, mask: Tensor) -> Tensor:
            total = self.weight.exp() + mask
            return torch.softmax(total, -1).sin() + total + torch.softmax(self.weight.sin() + mask, 1).sin()

    program = canonical(Net(), BATCH, output_sum)
    find_saved(program)
    fuse_masked_softmax(program)
    assert not calls(program, daf.masked_softmax.default)
