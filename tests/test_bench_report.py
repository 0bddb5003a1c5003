from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import open_chromium
from click.testing import CliRunner

from daf.errors import Exit, UserError
from daf.tools import bench_growth
from daf.tools.bench import bench
from daf.tools.bench_headlines import BEGIN, END, HEADLINES, fill_readme, headlines
from daf.tools.bench_report import Outputs, as_json, changes, hardware, read_document, read_results, versions
from daf.tools.bench_results import Result
from daf.tools.bench_step import StepCase

FAST = Result("gemm", "256x256, 1 thread", 90.0, "PyTorch", 100.0, "GFLOP/s", 0.1)
ROOT = Path(__file__).parent.parent
SMALL = Result("<resnet18>, kept", "batch 8, daf", 5.0, "PyTorch", 100.0, "MB", 0.0)

HEADLINES_OF_MEMORY = [
    replace(SMALL, setting="width=16, batch 8, daf", name="resnet18, kept for backward", suite="memory")
]


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
        names = "[...document.querySelectorAll('h3')].map(h => h.textContent)"
        assert browser.evaluate(names) == ["gemm", "<resnet18>, kept"]
        assert browser.evaluate("document.querySelectorAll('td .fill').length") == 2
        assert hardware() in browser.evaluate("document.getElementById('subtitle').textContent")


def test_the_page_is_grouped_by_suite_and_begins_with_what_matters(tmp_path: Path) -> None:
    path = tmp_path / "bench.html"
    results = [replace(FAST, suite="kernels"), *HEADLINES_OF_MEMORY]
    Outputs(None, path, None).write(results, "what")
    with open_chromium(tmp_path / "profile") as browser:
        for width in (1000, 400):
            browser.open(path, width=width, dark=width < 600)
            assert browser.problems() == []
            titles = browser.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)")
            assert titles == ["At a glance", "kernels", "memory"]
            assert browser.evaluate("document.querySelector('.verdict').textContent") == "20.0x less"
            assert browser.evaluate("document.documentElement.scrollWidth") <= width


# ---- the README ----------------------------------------------------------------------------------------------------


def test_the_table_of_the_readme_is_that_of_the_bench() -> None:
    """Change it by measuring: `make bench-readme`."""
    readme = (ROOT / "README.md").read_text()
    document = read_document(ROOT / "docs" / "bench_quick.json")
    assert fill_readme(readme, document) == readme
    assert len(headlines(document)) == len(HEADLINES), "every headline was measured"


def test_a_table_is_put_between_its_markers() -> None:
    document = as_json(HEADLINES_OF_MEMORY)
    text = fill_readme(f"before\n{BEGIN}\nold\n{END}\nafter\n", document)
    assert text.startswith(f"before\n{BEGIN}\n| measured | DAF | peer |")
    assert "| 5 MB | 100 MB | 20.0x less | PyTorch |" in text
    assert text.endswith(f"{hardware()}, {versions()}.\n{END}\nafter\n")
    assert "old" not in text
    with pytest.raises(UserError, match="are not in it"):
        fill_readme("no markers", document)


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
