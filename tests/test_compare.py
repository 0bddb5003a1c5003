"""`daf compare`: the table, the check for continuous integration, and the page as a browser shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Page, open_chromium
from commands import daf
from traces import Line, trace_lines, write_trace

from daf.errors import Exit, UserError
from daf.tools.fail_if import parse_condition


def without_store(lines: list[Line]) -> list[Line]:
    """The same training with all activations in the arena."""
    kept = [dict(line) for line in lines if line["type"] != "event"]
    for line in kept:
        for parts in (line, line.get("peak", {})):
            for name in ("pool", "pool_reserved", "pool_largest_free"):
                parts.pop(name, None)
            if "arena" in parts:
                parts.update(arena=212_000, activations=112_256)
    kept[0]["activations"] = [{**item, "stored_bytes": item["raw_bytes"]} for item in kept[0]["activations"]]
    return kept


@pytest.fixture
def fp32(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "fp32.trace", without_store(trace_lines(30)))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "stored.trace", trace_lines(30))


def test_table_has_values_and_ratios(fp32: Path, stored: Path) -> None:
    done = daf("compare", fp32, stored)
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "fp32.trace stored.trace"
    assert "activation memory 112.3 kB 20.3 kB (0.18x)" in lines
    assert "peak of all parts 240.0 kB 148.0 kB (0.617x)" in lines
    assert "pool - 20.0 kB" in lines
    assert "loss at the end 0.0833 0.0833 (1x)" in lines


def test_what_differs_is_said(fp32: Path, tmp_path: Path) -> None:
    other = write_trace(tmp_path / "b.trace", trace_lines(20, config={"batch_size": 16, "optimizer": {"name": "sgd"}}))
    done = daf("compare", fp32, other)
    assert "different batch_size: 8 / 16" in done.stdout
    assert "different steps: 30 / 20" in done.stdout
    assert "different optimizer.lr: 0.1 / -" in done.stdout


def test_different_models_are_refused(fp32: Path, tmp_path: Path) -> None:
    program = {"file": "o.pte", "sha256": "00", "model": "other"}
    other = write_trace(tmp_path / "o.trace", trace_lines(2, program=program))
    done = daf("compare", fp32, other)
    assert done.returncode == Exit.CHECK_FAILED
    assert done.stderr.startswith("error: cannot compare: o.trace trains other and fp32.trace trains net")
    assert daf("compare", fp32, other, "--force").returncode == 0


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("peak > 1.05x", False),
        ("peak > 0.5x", True),
        ("activations >= 20256B", True),
        ("activations >= 1GB", False),
        ("rss > 13MB", False),
        ("step_time > 9.9ms", True),
        ("loss < 1", True),
        ("pool > 1x", True),  # the first trace has none
    ],
)
def test_fail_if(fp32: Path, stored: Path, condition: str, fails: bool) -> None:
    done = daf("compare", fp32, stored, "--fail-if", condition)
    assert done.returncode == (Exit.CHECK_FAILED if fails else Exit.OK)
    assert (f"{condition}" in done.stderr) is fails


def test_an_incomplete_trace_fails_the_check(fp32: Path, stored: Path) -> None:
    stored.write_bytes(stored.read_bytes()[:-300])
    assert daf("compare", fp32, stored).returncode == Exit.OK
    done = daf("compare", fp32, stored, "--fail-if", "peak > 2x")
    assert done.returncode == Exit.CHECK_FAILED
    assert "failed: stored.trace: it is incomplete" in done.stderr


def test_a_loss_that_is_not_a_number_fails_the_check(fp32: Path) -> None:
    lines = [json.loads(line) for line in fp32.read_text().splitlines()]
    for line in lines:
        if line["type"] == "step":
            line["loss"] = "NaN"
    write_trace(fp32, lines)
    assert daf("compare", fp32, "--fail-if", "loss > 100").returncode == Exit.CHECK_FAILED


@pytest.mark.parametrize(
    "text", ["", "peak", "peak > ", "peak = 3MB", "speed > 3x", "peak > 3ms", "loss > 3MB", "1 > 2"]
)
def test_conditions_that_mean_nothing(text: str) -> None:
    with pytest.raises(UserError, match="cannot use --fail-if") as caught:
        parse_condition(text)
    assert caught.value.exit_code == Exit.USAGE


def test_a_ratio_needs_two_traces(fp32: Path) -> None:
    done = daf("compare", fp32, "--fail-if", "peak > 2x")
    assert done.returncode == Exit.USAGE
    assert "needs a second trace" in done.stderr


def test_json(fp32: Path, stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert daf("compare", fp32, stored, "--json", path).returncode == 0
    document = json.loads(path.read_text())
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    assert metrics["activations"]["values"] == [112_256, 20_256]
    assert metrics["activations"]["ratios"] == [None, pytest.approx(20_256 / 112_256)]
    assert [trace["name"] for trace in document["traces"]] == ["fp32.trace", "stored.trace"]


# ---- the page ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


def open_page(browser: Page, *traces: Path, **options: Any) -> None:
    path = traces[0].with_name("compare.html")
    done = daf("compare", *traces, "--html", path)
    assert done.returncode == 0, done.stderr
    browser.open(path, **options)
    # Neither an error nor a request but the page itself.
    assert browser.problems() == []
    assert browser.requested_urls() == [path.as_uri()]


def test_charts_are_drawn(browser: Page, fp32: Path, stored: Path) -> None:
    open_page(browser, fp32, stored)
    assert browser.evaluate("document.title") == "DAF: traces compared"
    assert browser.evaluate("document.querySelectorAll('#figures tbody tr').length") == 11
    parts = browser.evaluate("[...document.querySelectorAll('#memory polygon')].map(p => p.dataset.part)")
    assert parts.count("stored activations") == 2
    assert len(parts) == 16
    curves = browser.evaluate("[...document.querySelectorAll('#loss path')].map(p => p.dataset.trace)")
    assert curves == ["fp32.trace", "stored.trace"]
    assert browser.evaluate("document.querySelectorAll('#activations .name').length") == 4
    assert browser.evaluate("!document.getElementById('bits-section').hidden")


def test_charts_answer_the_pointer(browser: Page, fp32: Path, stored: Path) -> None:
    open_page(browser, fp32, stored)
    place = browser.evaluate(
        "(r => { scrollTo(0, r.top); const s = document.querySelectorAll('#memory svg')[1].getBoundingClientRect();"
        " return [s.left + s.width / 2, s.top + s.height / 2]; })"
        "(document.querySelector('#memory').getBoundingClientRect())"
    )
    browser.move_pointer(*place)
    tip = browser.evaluate("document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
    assert "stored activations 19.0 kB" in tip
    browser.evaluate("document.querySelectorAll('#memory .legend button')[0].click()")
    parts = browser.evaluate("[...document.querySelectorAll('#memory polygon')].map(p => p.dataset.part)")
    assert "weights" not in parts


def test_readable_on_a_phone_and_in_the_dark(browser: Page, fp32: Path, stored: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    open_page(browser, fp32, stored)
    light = browser.evaluate(background)
    open_page(browser, fp32, stored, width=360, height=740, dark=True)
    assert browser.evaluate(background) != light
    # Nothing is wider than the screen: only the table may be scrolled, within its box.
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360


def test_names_in_a_trace_are_only_text(browser: Page, tmp_path: Path) -> None:
    evil = "</script><script>document.title='x'</script><img src=x onerror=alert(1)>"
    lines = trace_lines(2, program={"file": evil, "sha256": "", "model": evil}, device={"model": evil})
    lines[0]["activations"][0]["module"] = evil
    open_page(browser, write_trace(tmp_path / "e.trace", lines))
    assert browser.evaluate("document.title") == "DAF: traces compared"
    assert browser.evaluate("document.images.length") == 0
    assert evil in browser.evaluate("document.getElementById('title').textContent")


def test_traces_without_steps_still_give_a_page(browser: Page, tmp_path: Path) -> None:
    lines = trace_lines(0)
    open_page(browser, write_trace(tmp_path / "none.trace", lines))
    assert "No trace has a step" in browser.evaluate("document.getElementById('memory').textContent")
