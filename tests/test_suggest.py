from __future__ import annotations

import re

import pytest
import torch
from commands import daf_export
from training import Export

from daf.errors import UserError
from daf.exporter.suggest import COMBINATIONS, Candidate, choose, count_multiply_adds

SUGGEST = ("--suggest", "--device-memory", "16MB")
SIZES = (100, 20, 35, 30, 10, 5, 4)  # of the combinations, in order


def candidates() -> list[Candidate]:
    costs = (9, 9, 9, 4, 3, 3, 2)
    return [Candidate(c, size, cost) for c, size, cost in zip(COMBINATIONS, SIZES, costs, strict=True)]


def test_three_with_different_merits() -> None:
    chosen = choose(candidates(), 40)
    assert [(str(s.candidate.combination), s.reason) for s in chosen] == [
        ("--activations daf", "gives up the least"),
        ("--activations daf --update last:1", "needs the least memory"),
        ("--update last:2", "gives up a little more"),
    ]


def test_where_everything_fits_nothing_is_given_up() -> None:
    assert choose(candidates(), 1000)[0].candidate.combination.gives_up == "nothing"


def test_where_nothing_fits_the_closest_is_named() -> None:
    with pytest.raises(UserError, match=r"comes closest \(--activations daf --update last:1\) needs 5 B"):
        choose(candidates(), 3)


def test_from_the_command_line() -> None:
    done = daf_export("cnn_digits", "--set", "width=4", "--batch-size", 64, "--lr", 0.1, *SUGGEST)
    assert done.returncode == 0, done.stderr
    assert (
        "gives up the least: nothing\n   daf-export cnn_digits --set width=4 --set batch_size=64 --lr 0.1 -o OUT.pte"
        in done.stdout
    )
    assert "--update sparse was left out: cannot export the model with --update sparse" in done.stdout
    costs = {line.split("  ")[0]: re.search(r"(\d\.\d\d)x", line) for line in done.stdout.splitlines()}
    dense, last = costs["float32, dense"], costs["--update last:2"]
    assert dense is not None
    assert last is not None
    assert dense[1] == "1.00"
    assert 0 < float(last[1]) < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--suggest",), "--suggest and --device-memory SIZE belong together"),
        (("--device-memory", "1GB", "-o", "x.pte"), "belong together"),
        ((), "Missing option"),
    ],
)
def test_refuses(options: tuple[str, ...], message: str) -> None:
    done = daf_export("cnn_digits", *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_counts_what_products_compute(cnn_export: Export) -> None:
    """Against the formula for each layer, of forward."""
    from daf.exporter.lower import TRAIN

    forward = 0
    for node in cnn_export.programs[TRAIN].graph.nodes:
        if node.op == "call_function" and node.meta.get("daf_phase") == "forward":
            forward += count_multiply_adds(node)
    expected = 0

    def add(module: torch.nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        nonlocal expected
        weight = module.weight
        assert isinstance(weight, torch.Tensor)
        expected += out.numel() * weight[0].numel()

    model = cnn_export.model
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    handles = [layer.register_forward_hook(add) for layer in layers]
    model(*cnn_export.batch[:-1])
    for handle in handles:
        handle.remove()
    assert forward == expected > 0
