from __future__ import annotations

import torch
from exports import calls, canonical, output_sum
from torch import Tensor, nn

from daf.exporter.passes.convert_elementwise import convert_elementwise
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        half = (self.weight / 2 - x).exp()
        return (half.permute(1, 0).expand(5, 4, 3) * 3).sin() + (n + n) + torch.add(x, x, alpha=2).sum()


BATCH = (torch.ones(3, 4), torch.ones(3, dtype=torch.int64), torch.ones(3))


def test_float32_is_converted_and_the_rest_stays() -> None:
    program = canonical(Net(), BATCH, output_sum)
    convert_elementwise(program)
    verify(program, "convert_elementwise")
    kinds = [node.args[2] for node in calls(program, daf.arithmetic.default)]
    assert kinds[:1] == ["subtract"]
    scalars = [node.args[1:] for node in calls(program, daf.arithmetic_scalar.default)]
    assert scalars[:2] == [(2.0, "divide"), (3.0, "multiply")]
    assert [node.args[1] for node in calls(program, daf.permute.default)][:1] == [[1, 0]]
    assert calls(program, daf.expand.default)
    kept = calls(program, aten.add.Tensor)
    assert [node.meta["val"].dtype for node in kept] == [torch.int64, torch.float32, torch.float32]
    assert kept[1].kwargs == {"alpha": 2} or kept[2].kwargs == {"alpha": 2}
