from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from daf.tools import bench_step
from daf.tools.bench import bench
from daf.tools.bench_report import as_json

KEYS = {
    "name",
    "setting",
    "ours",
    "peer",
    "peer_value",
    "ratio",
    "unit",
    "spread",
    "more_is_better",
    "hardware",
    "versions",
    "suite",
}


def test_results_have_a_ratio_against_the_peer_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_step, "MIN_SLICE_S", 0.0)
    case = bench_step.StepCase("mlp_digits", 4, {"width": "8"})
    one, two = as_json(bench_step.run_bench([case], [1, 2], 2, True))["results"]
    assert set(one) == set(two) == KEYS
    assert one["setting"] == "width=8, batch 4, 1 thread"
    assert two["setting"] == "width=8, batch 4, 2 threads"
    assert one["ratio"] == pytest.approx(one["ours"] / one["peer_value"])
    assert one["unit"] == "ms"
    printed = capsys.readouterr().out
    assert "mlp_digits" in printed
    assert "daf::gemm.out" in printed, "the profile"


def test_executorch_alone_is_a_peer_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_step, "MIN_SLICE_S", 0.0)
    eager, stock = as_json(bench_step.run_bench([bench_step.STOCK_CASE], [1], 1, False))["results"]
    assert "PyTorch" in eager["peer"]
    assert "ExecuTorch" in stock["peer"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["step", "--batch-size", "4"], "need a MODEL"),
        (["step", "mlp_digits", "--set", "width"], "'width' is not of the form name=value"),
    ],
)
def test_refuses(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 2
    assert message in result.output
