"""The reader on whole, damaged, foreign and newer traces."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import pytest
from commands import daf
from traces import header, step_rows, trace_lines, write_trace

from daf.errors import Exit
from daf.tools.report_json import summary_json
from daf.tools.trace.reader import MAX_LINE_BYTES, TraceReader
from daf.tools.trace.rows import Counters, Event, Footer, Step
from daf.tools.trace.summary import summarize


def test_reads_a_trace_of_the_session(cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    assert daf("run", cnn_program, "--data", digits, "--steps", 5, "--trace", path).returncode == 0
    with TraceReader(path) as reader:
        rows = list(reader)
    assert reader.condition() == "complete"
    assert reader.header.model == "cnn_digits"
    assert reader.header.config["optimizer.name"] == "sgd"
    manifest = json.loads(cnn_program.with_name("cnn.daf.json").read_text())
    planned = {item["name"]: item["stored_bytes"] for item in manifest["activations"]["kept"]}
    assert {item.name: item.stored_bytes for item in reader.header.activations} == planned
    steps = [row for row in rows if isinstance(row, Step)]
    assert [row.step for row in steps] == [1, 2, 3, 4, 5]
    assert all((row.forward_us or 0) > 0 for row in steps)
    assert isinstance(rows[-1], Footer)


def test_rows_have_their_fields(tmp_path: Path) -> None:
    with TraceReader(write_trace(tmp_path / "t", trace_lines(2))) as reader:
        rows = list(reader)
    drop = next(row for row in rows if isinstance(row, Event) and row.event == "drop")
    assert (drop.tensor, drop.phase, drop.fields["bits"]) == ("conv1", "forward", 7)
    counters = next(row for row in rows if isinstance(row, Counters))
    assert counters.values["pool_reserved"] == 24_000


@pytest.mark.parametrize(("text", "value"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)])
def test_a_loss_that_is_not_a_number_is_read(tmp_path: Path, text: str, value: float) -> None:
    lines = trace_lines(1)
    next(line for line in lines if line["type"] == "step")["loss"] = text
    summary = summarize(write_trace(tmp_path / "t", lines))
    assert summary.last_step is not None
    assert str(summary.last_step.loss) == str(value)
    json.dumps(summary_json(summary, 10), allow_nan=False)


# ---- damage ------------------------------------------------------------------------------------------------------


def test_a_trace_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", trace_lines(3))
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b'"type": "counters"') + 30])
    summary = summarize(path)
    assert summary.n_steps == 3
    assert not summary.complete
    assert summary.condition.startswith("incomplete: it ends without a footer")
    assert "1 line is damaged" in summary.condition


def test_damaged_lines_in_the_middle_are_skipped(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", trace_lines(3))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = b"\xff\xfe not text\n"
    lines[6] = b'{"type":"step","step":-4}\n'
    lines[7] = b"x" * (2 * MAX_LINE_BYTES + 7) + b"\n"
    path.write_bytes(b"".join(lines))
    summary = summarize(path)
    assert "3 lines are damaged (first: 6)" in summary.condition
    assert summary.n_steps == 3


def test_what_a_newer_minor_version_adds_is_passed_over(tmp_path: Path) -> None:
    lines = trace_lines(2, minor=7, more={"a": [1]})
    lines[3]["more"] = "x"
    lines.insert(4, {"type": "weather", "sun": True})
    summary = summarize(write_trace(tmp_path / "t", lines))
    assert summary.complete
    assert "1 rows are of kinds that a newer version of daf writes" in summary.condition


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\x00\x01\x02", "its first line is not a line of JSON"),
        (b"[1, 2]\n", "its first line is not a JSON object"),
        (b'{"type":"header","format":"other"}\n', "its first line is not a header of a DAF trace"),
        (json.dumps(header(schema=2)).encode(), "it has schema 2 and this version reads schema 1"),
        (json.dumps(next(step_rows(1))).encode(), "it does not begin with a header"),
        (b"[" * 100_000, "its first line is not a line of JSON"),
        (b'{"type":"header","schema":' + b"9" * 10_000 + b"}", "its first line is not a line of JSON"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    done = daf("report", path)
    assert done.returncode == Exit.DATA
    assert done.stderr.startswith(f"error: cannot read trace {path}: {reason}")


def test_no_such_trace(tmp_path: Path) -> None:
    done = daf("report", tmp_path / "none")
    assert done.returncode == Exit.DATA
    assert "No such file" in done.stderr


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    lines = trace_lines(1, program={"file": "\x1b]0;x\x07.pte", "sha256": "\ud800", "model": "a\nb"})
    done = daf("report", write_trace(tmp_path / "t", lines))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "a�b" in done.stdout


# ---- size --------------------------------------------------------------------------------------------------------


def peak_memory_bytes(path: Path) -> int:
    tracemalloc.start()
    try:
        summarize(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    # Both are longer than what is kept of a trace.
    small, large = (
        write_trace(tmp_path / f"{n}", (line for line in trace_lines(n) if line["type"] != "event"))
        for n in (2100, 6300)
    )
    assert peak_memory_bytes(large) < 1.2 * peak_memory_bytes(small)
