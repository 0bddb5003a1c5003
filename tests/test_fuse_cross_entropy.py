from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from exports import Loss, Mlp, calls, canonical, mlp_batch
from torch import Tensor

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.fuse_cross_entropy import fuse_cross_entropy
from daf.exporter.verify import verify

daf = torch.ops.daf
PARTS = daf.softmax.default, daf.softmax_backward.default, daf.nll_loss.default, daf.nll_loss_backward.default


@pytest.mark.parametrize(
    "loss",
    [
        F.cross_entropy,
        lambda o, t: F.cross_entropy(o, t, reduction="sum"),
        lambda o, t: F.cross_entropy(o, t, weight=torch.tensor([1.0, 2, 3]), ignore_index=1),
    ],
)
def test_loss_and_gradient_are_one_operator_and_nothing_of_it_is_kept(loss: Loss) -> None:
    program = canonical(Mlp(), mlp_batch(), loss)
    before = find_saved(program)
    fuse_cross_entropy(program)
    verify(program, "fuse_cross_entropy")
    assert len(calls(program, daf.cross_entropy.default)) == 1
    assert not calls(program, *PARTS)
    kept = find_saved(program)
    assert {s.node.target for s in before} - {s.node.target for s in kept} >= {daf.softmax.default}
    assert [s.node.target for s in kept] == [daf.activation.default], "the ReLU of the hidden layer"


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, t: 0.5 * F.cross_entropy(o, t),
        lambda o, t: F.cross_entropy(o, t) + o.square().mean(),
        lambda o, t: F.cross_entropy(o, t, label_smoothing=0.1),
        lambda o, t: F.cross_entropy(o, t, reduction="none").max(),
        lambda o, t: F.nll_loss(o.log_softmax(0), t),
        lambda o, t: F.nll_loss(log_p := o.log_softmax(1), t) + 0 * log_p.sum(),
    ],
)
def test_what_is_more_than_cross_entropy_stays_apart(loss: Loss) -> None:
    program = canonical(Mlp(), mlp_batch(), loss)
    n_parts = len(calls(program, *PARTS))
    fuse_cross_entropy(program)
    verify(program, "fuse_cross_entropy")
    assert not calls(program, daf.cross_entropy.default)
    assert len(calls(program, *PARTS)) == n_parts


def test_a_program_without_a_loss_is_left_alone() -> None:
    from daf.exporter.capture import capture_predict

    program = capture_predict(Mlp(), mlp_batch()[:1], dynamic_batch=False)
    fuse_cross_entropy(program)
    verify(program, "fuse_cross_entropy")


def test_targets_may_be_views() -> None:
    """As those of a language model, whose tokens are all rows of one matrix."""

    class Tokens(Mlp):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).unsqueeze(1).expand(-1, 2, -1)

    program = canonical(
        Tokens(), mlp_batch(), lambda o, t: F.cross_entropy(o.flatten(0, 1), torch.stack([t, t], 1).flatten())
    )
    fuse_cross_entropy(program)
    verify(program, "fuse_cross_entropy")
    assert len(calls(program, daf.cross_entropy.default)) == 1
