from __future__ import annotations

import json
from pathlib import Path

import pytest
from chromium import open_chromium
from click.testing import CliRunner

from daf.errors import Exit, UserError
from daf.tools import bench_growth
from daf.tools.bench import bench
from daf.tools.bench_report import Outputs, changes, hardware, read_results, versions
from daf.tools.bench_results import Result
from daf.tools.bench_step import StepCase

FAST = Result("gemm", "256x256, 1 thread", 90.0, "PyTorch", 100.0, "GFLOP/s", 0.1)
SMALL = Result("<resnet18>, kept", "batch 8, daf", 5.0, "PyTorch", 100.0, "MB", 0.0)


def test_a_file_says_where_and_with_what_it_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.json"
    Outputs(path, None, None).write([FAST, SMALL], "what")
    gemm, kept = json.loads(path.read_text())["results"]
    assert gemm["ratio"] == pytest.approx(0.9)
    assert (gemm["more_is_better"], kept["more_is_better"]) == (True, False)
    assert gemm["hardware"] == hardware()
    assert "cores" in gemm["hardware"]
    assert gemm["versions"] == versions()
    assert all(name in gemm["versions"] for name in ("daf", "torch", "executorch"))
    assert read_results(path) == [FAST, SMALL]
    assert "90 GFLOP/s" in capsys.readouterr().out


def _changed(result: Result, ours: float) -> Result:
    return Result(result.name, result.setting, ours, result.peer, result.peer_value, result.unit, result.spread)


@pytest.mark.parametrize(
    ("old", "ours", "is_worse"),
    [
        (FAST, 80.0, True),  # 11 % slower
        (FAST, 86.0, False),  # within the noise
        (FAST, 120.0, False),  # faster
        (SMALL, 6.0, True),
        (SMALL, 4.0, False),
    ],
)
def test_worse_than_before_is_an_error_beyond_the_noise(
    tmp_path: Path, old: Result, ours: float, is_worse: bool
) -> None:
    path = tmp_path / "old.json"
    Outputs(path, None, None).write([FAST, SMALL], "what")
    outputs = Outputs(None, None, path)
    if is_worse:
        with pytest.raises(UserError, match="1 of 1 measurements are worse"):
            outputs.write([_changed(old, ours)], "what")
    else:
        outputs.write([_changed(old, ours)], "what")


def test_only_the_same_measurement_is_compared() -> None:
    other = Result("gemm", "512x512, 1 thread", 1.0, "PyTorch", 100.0, "GFLOP/s", 0.1)
    assert list(changes([FAST], [other])) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "it holds no results"),
        ('{"format": "daf-bench", "schema": 9, "results": []}', "its schema is 9"),
        ('{"format": "daf-bench", "schema": 1, "results": [{"name": "x"}]}', "a result is damaged"),
    ],
)
def test_other_files_are_refused_before_anything_is_measured(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(UserError, match=why) as refused:
        Outputs(None, None, path)
    assert refused.value.exit_code == Exit.DATA


def test_the_page_shows_every_result(tmp_path: Path) -> None:
    path = tmp_path / "bench.html"
    Outputs(None, path, None).write([FAST, SMALL], "what")
    with open_chromium(tmp_path / "profile") as browser:
        browser.open(path)
        assert browser.problems() == []
        assert browser.requested_urls() == [path.as_uri()]
        assert browser.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)") == [
            "gemm",
            "<resnet18>, kept",
        ]
        assert browser.evaluate("document.querySelectorAll('td .fill').length") == 2
        assert hardware() in browser.evaluate("document.getElementById('subtitle').textContent")


@pytest.mark.parametrize("options", [["--quick"], ["--json", "b.json"], ["--against", "old.json"]])
def test_options_belong_behind_the_suite(options: list[str]) -> None:
    result = CliRunner().invoke(bench, [*options, "store"])
    assert result.exit_code == 2
    assert "daf bench store --quick" in result.output


def test_exponents_of_growth() -> None:
    assert bench_growth.exponent([1, 2, 4], [3, 6, 12]) == pytest.approx(1)
    assert bench_growth.exponent([1, 10], [5, 500]) == pytest.approx(2)
    growth = bench_growth.Growth("batch", (128, 512), lambda n: StepCase("cnn_digits", n))
    results = bench_growth.run_bench([growth], 1)
    by_name = {result.name: result.ours for result in results}
    assert by_name["growth of what is kept"] == pytest.approx(1, abs=0.2)
    assert by_name["growth of a drop"] < 0.9
    assert "growth of the time of a step" in by_name
