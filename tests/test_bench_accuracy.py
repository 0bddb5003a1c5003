from __future__ import annotations

from pathlib import Path

import pytest

from daf.tools import bench_accuracy
from daf.tools.bench_accuracy import AccuracyCase
from daf.tools.bench_report import as_json
from daf.tools.bench_step import StepCase


def test_every_kind_is_trained_and_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DAF_DATA_DIR", raising=False)
    digits = AccuracyCase(StepCase("mlp_digits", 32), 60, 0.1)
    elsewhere = AccuracyCase(StepCase("resnet18", 8), 1, 0.1, needs_data=True)
    # Whether the package with its weights is installed or not, they are for width 1.
    half = {"pretrained": "true", "width": "0.5"}
    pretrained = AccuracyCase(StepCase("mobilenet_v2", 8, half), 1, 0.1)
    results = as_json(bench_accuracy.run_bench([digits, elsewhere, pretrained], 1, False, 1))["results"]
    kinds = [result["setting"].split("1 seeds, ")[1].split(", ") for result in results]
    assert [" ".join(kind[:2]) for kind in kinds[:-1]] == [
        "fp32",
        "2 bits uniform",
        "2 bits calibrated",
        "2 bits gradient",
    ]
    assert kinds[-1][0] == "division"
    fp32 = results[0]
    assert fp32["ours"] == pytest.approx(fp32["peer_value"], abs=1.0)
    for result in results:
        assert 60 < result["ours"] <= 100, "it has learned"
    printed = capsys.readouterr().out
    assert "SKIP resnet18: DAF_DATA_DIR is not set" in printed
    assert "SKIP mobilenet_v2: cannot load the pretrained weights" in printed


def test_a_budget_between_whole_bits() -> None:
    class Plan:
        raw = {"store": {"entries": [{"n_elements": 131072 * 4}]}}  # noqa: RUF012
        memory = {"arena": 1000, "workspace": 10}  # noqa: RUF012

    one, middle, two = (bench_accuracy._budget(Plan(), bits)[0] for bits in (1.0, 1.5, 2.0))  # type: ignore[arg-type]
    assert one < middle < two
    assert middle == (one + two) // 2
    assert bench_accuracy._budget(Plan(), 1.0)[1] == one + 1010  # type: ignore[arg-type]
