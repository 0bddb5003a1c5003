from __future__ import annotations

from typing import Any

import pytest

from daf.tools.progress import Progress, RunStats

PARTS = {
    "weights": 4000,
    "constants": 0,
    "optimizer": 4000,
    "arena": 10_200_000,
    "activations": 9_000_000,
    "gradients": 100_000,
    "workspace": 500_000,
}


def step(number: int, loss: float | str, total_us: int = 2000) -> dict[str, Any]:
    return {"type": "step", "step": number, "loss": loss, "total_us": total_us, "peak": PARTS}


def counters(number: int) -> dict[str, Any]:
    return {"type": "counters", "step": number, "rss": 130_000_000, **PARTS}


def test_summary_of_a_run() -> None:
    stats = RunStats()
    stats.add({"type": "header", "rss_baseline_bytes": 120_000_000})
    for number, (loss, total_us) in enumerate([(2.5, 9000), (1.5, 1000), (0.5, 2000)], start=1):
        stats.add(step(number, loss, total_us))
        stats.add(counters(number))
    stats.add({"type": "event", "event": "checkpoint", "step": 3})
    stats.add({"type": "footer", "peak_rss_bytes": 140_500_000, "peak": PARTS})
    assert stats.checkpoint_step == 3
    assert stats.first_bad_step is None
    assert stats.summary().splitlines() == [
        "loss                   2.5000 -> 0.5000",
        "time per step          2.00 ms (median of 3)",
        "peak RSS               140.5 MB (20.5 MB above the empty process)",
        "  weights              4.0 kB",
        "  constants            0 B",
        "  optimizer            4.0 kB",
        "  arena                10.2 MB",
        "    kept for backward  9.0 MB",
        "    of it gradients    100.0 kB",
        "  workspace            500.0 kB",
    ]


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_loss_that_is_not_finite_is_noticed(loss: str) -> None:
    stats = RunStats()
    for number, value in enumerate([1.0, loss, 2.0], start=8):
        stats.add(step(number, value))
    assert stats.first_bad_step == 9


def test_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(steps=100, first_step=900) as progress:
        for number in range(901, 1001):
            progress.add(step(number, 0.25))
            progress.add(counters(number))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [
        f"{n}/1000" if n < 1000 else "1000/1000" for n in (901, *range(910, 1001, 10))
    ]
    assert lines[0] == "step  901/1000  loss 0.2500  2.00 ms/step  arena 10.2 MB  RSS 130.0 MB"
