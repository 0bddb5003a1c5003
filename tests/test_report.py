"""`daf report`: what it prints, and the formats that it writes."""

from __future__ import annotations

import csv
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import daf, daf_export
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from traces import PARTS, trace_lines, write_trace

from daf.errors import Exit
from daf.tools.trace.series import Series
from daf.tools.trace.summary import summarize


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "run.trace", trace_lines(4))


# Most stored at once: conv1 at 8 bits and conv2 at 4, before conv1 loses a plane.
MOST_STORED = 16_000 + 4000


def test_tables(trace: Path) -> None:
    done = daf("report", trace)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert f"trace {trace} (complete)" in text
    assert "device runner, Phone 1, Chip, Android 14, arm64-v8a" in text
    assert "loss 2.5000 -> 0.6250" in text
    assert "time per step 10.00 ms (median) forward 4.00 ms backward 5.00 ms update 1.00 ms" in text
    assert "temperature 41.5 °C at most" in text
    assert "all parts 148.0 kB 148.3 kB" in text
    # 20 kB in the pool, and the one that stays in the arena.
    assert "activations 20.3 kB 20.3 kB" in text
    assert "conv1 64.0 kB 16.0 kB 7" in text
    assert "operator in step 2 calls time share daf::gemm.out 2 5.00 ms 83 % aten::add.out 1 1.00 ms 17 %" in text
    assert "4 planes dropped, 8.0 kB in all; most of: conv1 (4)" in text


def test_timeline_of_the_last_step(trace: Path) -> None:
    timeline = summarize(trace).timeline
    assert timeline is not None
    assert timeline.step == 4
    conv1, dropped, conv2, fc = 16_000, 14_000, 4000, 1000
    assert timeline.stored == (
        (1000, conv1),
        (2000, conv1 + conv2),
        (2500, dropped + conv2),
        (3000, dropped + conv2 + fc),
        (6000, dropped + conv2),
        (7000, dropped),
        (9000, 0),
    )
    assert timeline.level_at(2999) == dropped + conv2
    assert [timeline.phase_at(t) for t in (0, 3999, 4001, 9500)] == ["forward", "forward", "backward", "update"]
    assert sum(timeline.flat.values()) == sum(PARTS.values())


def test_json(trace: Path) -> None:
    done = daf("report", trace, "--json", "-", "--top", 1)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["complete"]
    assert document["peak"]["pool"] == MOST_STORED
    assert document["loss"] == [[1, 2.5], [2, 1.25], [3, 2.5 / 3], [4, 0.625]]
    [conv1] = document["activations"]
    # 16 kB for 1.5 ms, then 14 kB for 6.5 ms.
    assert conv1["byte_us_per_step"] == 16_000 * 1500 + 14_000 * 6500
    assert document["bits"][0]["mean_bits"] == pytest.approx((64 * 7 + 32 * 4 + 16 * 2) / 112)


def test_csv_has_a_line_per_step(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    assert daf("report", trace, "--csv", path).returncode == 0
    with path.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["step"] for line in lines] == ["1", "2", "3", "4"]
    assert lines[1]["loss"] == "1.25"
    assert lines[1]["pool"] == "20000"
    assert lines[1]["drops"] == "1"
    assert lines[1]["pss"] == ""


def perfetto_events(path: Path) -> tuple[dict[int, str], list[Any]]:
    """Names of the tracks, and the packets with an event."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    names = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    return names, [packet for packet in trace.packet if packet.HasField("track_event")]


def test_perfetto_tracks_and_events(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    assert daf("report", trace, "--perfetto", path).returncode == 0
    names, packets = perfetto_events(path)
    assert {*PARTS, "pool", "rss", "swap", "steps", "events"} <= set(names.values())
    events = [(packet.timestamp, packet.track_event) for packet in packets]
    slices = [(t, e.name) for t, e in events if e.type == TrackEvent.TYPE_SLICE_BEGIN]
    assert slices[:4] == [(0, "step 1"), (0, "forward"), (4_000_000, "backward"), (9_000_000, "update")]
    ends = [t for t, e in events if e.type == TrackEvent.TYPE_SLICE_END]
    assert len(ends) == len(slices) == 16 + 3
    operators = [(t, e.name) for t, e in events if names[e.track_uuid] == "operators" and e.name]
    start = 10_000_000
    assert operators == [
        (start, "daf::gemm.out"),
        (start + 3_000_500, "aten::add.out"),
        (start + 4_000_500, "daf::gemm.out"),
    ]
    drops = [(t, e) for t, e in events if e.name == "drop"]
    assert [t for t, _ in drops] == [2_500_000, 12_500_000, 22_500_000, 32_500_000]
    annotations = {a.name: a.string_value or a.int_value for a in drops[0][1].debug_annotations}
    assert annotations["tensor"] == "conv1"
    assert annotations["bits"] == 7
    pool = [e.counter_value for _, e in events if names[e.track_uuid] == "pool"]
    assert pool == [20_000] * 4


def test_perfetto_reads_it(trace: Path, tmp_path: Path) -> None:
    shell = shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip("trace_processor_shell is not on PATH (get it from github.com/google/perfetto/releases)")
    path = tmp_path / "run.pftrace"
    assert daf("report", trace, "--perfetto", path).returncode == 0
    query = "select count(*) as n, max(dur) as longest from slice where name glob 'step *'"
    done = subprocess.run([shell, "--query-string", query, path], capture_output=True, text=True)
    assert "4,10000000" in done.stdout, done.stderr


def test_an_output_that_cannot_be_written(trace: Path, tmp_path: Path) -> None:
    done = daf("report", trace, "--csv", tmp_path / "none" / "x.csv")
    assert done.returncode == Exit.OUTPUT
    assert "its folder does not exist" in done.stderr


def test_a_trace_of_a_program_with_a_store(tmp_path: Path) -> None:
    program, path = tmp_path / "cnn.pte", tmp_path / "run.trace"
    exported = daf_export("cnn_digits", "--batch-size", "32", "--activations", "daf", "-o", program)
    assert exported.returncode == 0, exported.stderr
    assert daf("run", program, "--steps", 3, "--trace", path).returncode == 0
    summary = summarize(path)
    assert summary.complete
    assert summary.timeline is not None
    assert summary.timeline.step == 1  # the one whose events are all in the trace
    levels = [level for _, level in summary.timeline.stored]
    assert levels[-1] == 0
    assert 0 < max(levels) <= summary.peak["pool"]
    stored = {use.name: use for use in summary.store.top(100)}
    planned = {item.name: item for item in summary.header.activations}
    assert stored
    assert all(use.raw_bytes == planned[name].raw_bytes for name, use in stored.items())
    assert summary.activation_bytes is not None
    assert summary.activation_bytes < sum(item.raw_bytes for item in planned.values()) / 4
    assert "memory over step 1" in daf("report", path).stdout


def test_a_program_without_a_store_lists_its_plan(cnn_program: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    assert daf("run", cnn_program, "--steps", 2, "--trace", path).returncode == 0
    done = daf("report", path)
    assert done.returncode == 0, done.stderr
    assert "block1.conv    convolution_default" in done.stdout


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
def test_series_keeps_even_points_and_the_last(n: int) -> None:
    series: Series[int] = Series(8)
    for value in range(n):
        series.add(value)
    points = series.points()
    assert points[0] == 0
    assert points[-1] == n - 1
    assert len(points) <= 9
    assert len(series) == n
    gaps = {b - a for a, b in itertools.pairwise(points[:-1])}
    assert len(gaps) <= 1
