from __future__ import annotations

import torch
from exports import calls, canonical, output_sum
from torch import Tensor, nn

from daf.exporter.passes.fold_heads import fold_heads
from daf.exporter.verify import verify

aten = torch.ops.aten
daf = torch.ops.daf

BATCH, ROWS, HEADS, SIZE = 2, 5, 3, 4


class Attention(nn.Module):
    """What an attention does to its heads; the softmax is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(HEADS * SIZE, HEADS * SIZE)

    def split(self, x: Tensor) -> Tensor:
        return x.view(BATCH, ROWS, HEADS, SIZE).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.split(self.query(x)), self.split(x)
        mixed = torch.tanh(query @ key.transpose(2, 3)) @ self.split(x)
        return torch.tanh(mixed.transpose(1, 2).reshape(BATCH, ROWS, HEADS * SIZE))


BATCHED = (torch.ones(BATCH, ROWS, HEADS * SIZE), torch.ones(BATCH))


def test_no_head_is_copied_in_forward_or_backward() -> None:
    program = canonical(Attention(), BATCHED, output_sum)
    assert calls(program, aten.permute.default)
    fold_heads(program)
    verify(program, "fold_heads")
    assert not calls(program, aten.permute.default)
    scores, mixed, *backward = calls(program, daf.batch_gemm.default)
    assert scores.args[2:] == (False, True, True, True, False, 1.0), "query @ key.T, rows before heads"
    assert scores.meta["val"].shape == (BATCH, HEADS, ROWS, ROWS)
    assert mixed.args[2:] == (False, False, False, True, True, 1.0)
    assert mixed.meta["val"].shape == (BATCH, ROWS, HEADS, SIZE)
    assert len(backward) == 2, "of the scores and of the query"
    assert all(node.meta["val"].dim() != 3 for node in calls(program, daf.gemm.default))


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(BATCH, HEADS, SIZE, ROWS))


def test_a_transposed_result_is_the_product_of_the_transposed() -> None:
    class Net(Turned):
        def forward(self, x: Tensor) -> Tensor:
            return torch.exp((self.weight @ x).permute(0, 3, 1, 2).contiguous())

    program = canonical(Net(), (torch.ones(BATCH, HEADS, ROWS, 7), torch.ones(BATCH)), output_sum)
    fold_heads(program)
    first = calls(program, daf.batch_gemm.default)[0]
    assert [node.op for node in first.args[:2]] == ["placeholder", "placeholder"]
    assert first.args[0].meta["val"].shape == (BATCH, HEADS, ROWS, 7), "x comes first now"
    assert first.args[2:] == (True, True, False, False, True, 1.0)
    assert first.meta["val"].shape == (BATCH, 7, HEADS, SIZE)


def test_a_product_that_is_read_in_two_orders_keeps_its_own() -> None:
    class Net(Turned):
        def forward(self, x: Tensor) -> Tensor:
            product = self.weight @ x
            return product.exp().sum() + product.permute(0, 2, 1, 3).exp().sum()

    program = canonical(Net(), (torch.ones(BATCH, HEADS, ROWS, 7), torch.ones(BATCH)), output_sum)
    fold_heads(program)
    verify(program, "fold_heads")
    product = calls(program, daf.batch_gemm.default)[0]
    assert product.args[6] is False
    assert product.meta["val"].shape == (BATCH, HEADS, SIZE, 7)


def test_a_batch_that_is_not_made_of_heads_stays() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6, 4, 5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(x, self.weight)

    program = canonical(Net(), (torch.ones(6, 3, 4), torch.ones(6)), output_sum)
    fold_heads(program)
    assert not calls(program, daf.batch_gemm.default)
    assert calls(program, daf.gemm.default)
