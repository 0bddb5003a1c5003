from __future__ import annotations

import torch
from exports import calls, canonical, output_sum
from torch import Tensor, nn

from daf.exporter.find_saved import find_saved
from daf.exporter.passes.repeat_expands import repeat_expands
from daf.exporter.verify import verify

aten = torch.ops.aten


class SharedKeys(nn.Module):
    """Two heads with their own queries and one key."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(6, 8), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        query = self.query(x).view(n, t, 2, 4).transpose(1, 2)
        key = self.key(x)[:, None].expand(n, 2, t, 4).reshape(n * 2, t, 4)
        return query.reshape(n * 2, t, 4) @ key.transpose(1, 2)


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(3, 5, 6), torch.zeros(())


def test_what_is_kept_is_not_expanded() -> None:
    program = canonical(SharedKeys(), batch(), output_sum)
    before = {saved.node.target: saved.raw_bytes for saved in find_saved(program)}
    assert before[aten.expand.default] == 4 * 3 * 2 * 5 * 4
    repeat_expands(program)
    verify(program, "repeat_expands")
    saved = find_saved(program)
    assert aten.expand.default not in {activation.node.target for activation in saved}
    (forward, again) = (node for node in calls(program, aten.expand.default) if node.meta["val"].shape == (3, 2, 5, 4))
    assert forward.args == again.args
    assert (forward.meta["daf_phase"], again.meta["daf_phase"]) == ("forward", "backward")
    assert sum(activation.raw_bytes for activation in saved) == sum(before.values()) - 4 * 3 * 5 * 4


def test_what_backward_does_not_read_stays() -> None:
    class Net(SharedKeys):
        def forward(self, x: Tensor) -> Tensor:
            return self.query(x) + self.key(x).mean(2, keepdim=True).expand(-1, -1, 8)

    program = canonical(Net(), batch(), output_sum)
    n = len(calls(program, aten.expand.default))
    repeat_expands(program)
    assert len(calls(program, aten.expand.default)) == n
