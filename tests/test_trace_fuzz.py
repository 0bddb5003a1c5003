"""Damaged traces are read as far as they go, or refused: by the reader, `daf report` and `daf compare`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import daf, daf_export
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from trace_fuzz import read_everything
from traces import Line, trace_lines, write_trace

from daf.errors import Exit
from daf.tools.trace.summary import TraceSummary, summarize

FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def real_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that stores activations, under a budget that makes it drop some, with a checkpoint."""
    folder = tmp_path_factory.mktemp("real")
    program, trace = folder / "p.pte", folder / "run.trace"
    done = daf_export("cnn_digits", "--batch-size", 8, "--activations", "daf", "-o", program)
    assert done.returncode == 0, done.stderr
    done = daf("run", program, "--steps", 3, "--save", folder / "w.safetensors", "--trace", trace)
    assert done.returncode == 0, done.stderr
    return trace


@pytest.fixture(scope="module")
def real(real_trace: Path) -> TraceSummary:
    return summarize(real_trace)


# ---- damaged bytes -----------------------------------------------------------------------------------------------


def _flip(source: random.Random, content: bytearray) -> None:
    content[source.randrange(len(content))] ^= 1 << source.randrange(8)


def _overwrite(source: random.Random, content: bytearray) -> None:
    content[source.randrange(len(content))] = source.randrange(256)


def _delete(source: random.Random, content: bytearray) -> None:
    place = source.randrange(len(content))
    del content[place : place + source.randrange(1, 50)]


def _insert(source: random.Random, content: bytearray) -> None:
    place = source.randrange(len(content))
    content[place:place] = source.choice(
        (
            content[: source.randrange(1, 50)],
            b"\xff\xfe",
            b"\xed\xa0\x80",
            b"\x00",
            b"\\ud800",
            b"[" * 5000,
            b"9" * 5000,
        )
    )


def _cut(source: random.Random, content: bytearray) -> None:
    del content[source.randrange(len(content)) :]


def _swap_lines(source: random.Random, content: bytearray) -> None:
    lines = content.splitlines(keepends=True)
    i, j = (source.randrange(len(lines)) for _ in range(2))
    lines[i], lines[j] = lines[j], lines[i]
    content[:] = b"".join(lines)


def _repeat_line(source: random.Random, content: bytearray) -> None:
    lines = content.splitlines(keepends=True)
    lines.insert(source.randrange(len(lines)), source.choice(lines))
    content[:] = b"".join(lines)


DAMAGES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _flip,
    _overwrite,
    _delete,
    _insert,
    _cut,
    _swap_lines,
    _repeat_line,
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_bytes(tmp_path: Path, real_trace: Path, real: TraceSummary, damage: Callable[..., None]) -> None:
    path, original, source = tmp_path / "t", real_trace.read_bytes(), random.Random(0)
    n_read = 0
    for _ in range(120):
        content = bytearray(original)
        for _ in range(source.choice((1, 1, 3, 30))):
            if content:
                damage(source, content)
        path.write_bytes(content)
        n_read += read_everything(path, real)
    assert n_read > 20, "most damages leave something to read"


# ---- damaged values ----------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from(
    [0, -1, 2**53, 2**53 + 1, 2**63, 2**64, 10**400, -(10**400), 1e308, float("inf"), float("nan")]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.floats() | st.text(max_size=8) | st.just("NaN"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ROTATION: Line = {"type": "event", "event": "rotate", "step": 1, "t_us": 5, "coverage": 0.5}
TEMPLATE = [*trace_lines(2)[:-1], ROTATION, trace_lines(2)[-1]]


def _replaced(draw: st.DrawFn, value: object) -> object:
    """A value with something in it replaced, at any depth."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _replaced(draw, value[key])}
    if isinstance(value, list) and value and draw(st.booleans()):
        i = draw(st.integers(0, len(value) - 1))
        return [*value[:i], _replaced(draw, value[i]), *value[i + 1 :]]
    return draw(JSON_VALUES)


@st.composite
def changed_lines(draw: st.DrawFn) -> list[Line]:
    """A good trace of which some fields have been given any JSON value at all."""
    lines = [dict(line) for line in TEMPLATE]
    for _ in range(draw(st.integers(1, 6))):
        line = draw(st.sampled_from(lines))
        key = draw(st.sampled_from(sorted(line)) | st.text(max_size=8))
        line[key] = _replaced(draw, line.get(key))
    return lines


@FUZZ
@given(lines=changed_lines())
@example(lines=[*TEMPLATE[:-1], {**ROTATION, "coverage": "NaN"}])
def test_changed_values(tmp_path_factory: pytest.TempPathFactory, real: TraceSummary, lines: list[Line]) -> None:
    read_everything(write_trace(tmp_path_factory.getbasetemp() / "changed", lines), real)


# ---- the commands ------------------------------------------------------------------------------------------------


def test_the_commands_say_what_is_wrong(tmp_path: Path, real_trace: Path) -> None:
    lines = real_trace.read_bytes().splitlines(keepends=True)
    hurt = tmp_path / "hurt.trace"
    hurt.write_bytes(
        b"".join([lines[0], b'{"type":"step","step":1e999}\n', b"\xff\xff\n", b"[" * 9999, b"\n", *lines[1:-1]])
    )
    outputs = ["--perfetto", tmp_path / "p", "--csv", tmp_path / "c", "--json", tmp_path / "j"]
    for command in (["report", hurt, *outputs], ["compare", real_trace, hurt, "--html", tmp_path / "h"]):
        done = daf(*command)
        assert done.returncode == 0, done.stderr
        assert "3 lines are damaged (first: 2) and skipped" in done.stdout
        assert "Traceback" not in done.stderr
    json.loads((tmp_path / "j").read_text())
    hurt.write_bytes(lines[0][:-40])
    for command in (["report", hurt], ["compare", real_trace, hurt]):
        done = daf(*command)
        assert done.returncode == Exit.DATA
        assert done.stderr.startswith(f"error: cannot read trace {hurt}: its first line is not a line of JSON")
