from __future__ import annotations

import json
from pathlib import Path

import pytest

from daf.tools import bench_step


def test_results_have_a_ratio_against_the_peer_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_step, "CASES", (("mlp_digits", 4, {"width": "8"}),))
    monkeypatch.setattr(bench_step, "MIN_SLICE_S", 0.0)
    bench_step.run_bench(2, 1, tmp_path / "b.json")
    (result,) = json.loads((tmp_path / "b.json").read_text())["results"]
    assert set(result) == {"name", "setting", "ours", "peer", "peer_value", "ratio", "unit", "spread"}
    assert result["setting"] == "width=8, batch 4, 1 thread"
    assert result["ratio"] == pytest.approx(result["ours"] / result["peer_value"])
    assert result["unit"] == "ms"
    assert "mlp_digits" in capsys.readouterr().out
