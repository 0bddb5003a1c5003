"""What a trace says as a whole, gathered in one pass and in constant memory."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from daf.tools.trace.reader import TraceReader
from daf.tools.trace.rows import PARTS, Counters, Event, Footer, Header, Row, Step
from daf.tools.trace.series import Series
from daf.tools.trace.step_timeline import StepTimeline, TimelineBuilder
from daf.tools.trace.store_stats import StoreStats

MAX_EVENT_KINDS = 100


class TraceSummary:
    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self.footer: Footer | None = None
        self.condition = ""  # known when all rows were read
        self.complete = False
        self.first_step: Step | None = None
        self.last_step: Step | None = None
        self.losses: Series[tuple[int, float]] = Series()
        self.steps: Series[Step] = Series()
        self.peak: dict[str, int] = {}
        self.peak_held_bytes = 0
        self.rss: Series[tuple[int, int]] = Series(512)
        self.temperature_mc: int | None = None  # the highest, in thousandths of a degree Celsius
        self.events: Counter[str] = Counter()
        self.profile: Event | None = None  # the last
        self.coverage: float | None = None  # of a sparse update, at the end
        self.store = StoreStats()
        self._timeline = TimelineBuilder()
        self._peak_rss_bytes = 0

    def add(self, row: Row) -> None:
        if isinstance(row, Step):
            self._add_step(row)
        elif isinstance(row, Counters):
            self._add_counters(row)
        elif isinstance(row, Event):
            self._add_event(row)
        elif isinstance(row, Footer):
            self.footer = row
            self._raise_peak(row.peak)

    def _add_step(self, row: Step) -> None:
        self.first_step = self.first_step or row
        self.last_step = row
        self.losses.add((row.step, row.loss))
        self.steps.add(row)
        self._raise_peak(row.peak)
        self._timeline.end_step(row, self.store.step_is_recorded)
        self.store.end_step(row.step, row.t_us)

    def _add_counters(self, row: Counters) -> None:
        self._raise_peak({name: row.values[name] for name in row.values if name not in ("rss", "swap", "pss")})
        resident = row.values.get("rss", 0) + row.values.get("swap", 0)
        self._peak_rss_bytes = max(self._peak_rss_bytes, resident)
        self.rss.add((row.step, resident))
        if "temperature_mc" in row.values:
            self.temperature_mc = max(self.temperature_mc or 0, row.values["temperature_mc"])

    def _add_event(self, row: Event) -> None:
        if row.event in self.events or len(self.events) < MAX_EVENT_KINDS:
            self.events[row.event] += 1
        if row.ops:
            self.profile = row
        if row.coverage is not None:
            self.coverage = row.coverage
        level_before = self.store.level_bytes
        self.store.add(row)
        if self.store.level_bytes != level_before:
            self._timeline.add_level(row.t_us, self.store.level_bytes)

    def _raise_peak(self, parts: Mapping[str, int]) -> None:
        for name in (*PARTS, "activations", "gradients"):
            if name in parts:
                self.peak[name] = max(self.peak.get(name, 0), parts[name])
        self.peak_held_bytes = max(self.peak_held_bytes, sum(parts.get(name, 0) for name in PARTS))

    @property
    def n_steps(self) -> int:
        return len(self.steps)

    @property
    def timeline(self) -> StepTimeline | None:
        return self._timeline.last(self.kept_bytes or 0)

    @property
    def peak_rss_bytes(self) -> int:
        """The footer knows the kernel's own mark; without one, the highest that was counted."""
        return max(self._peak_rss_bytes, self.footer.peak_rss_bytes if self.footer else 0)

    @property
    def kept_bytes(self) -> int | None:
        """Activations that the arena holds until backward, as planned: all of them, or those that are not stored."""
        if not self.peak.get("pool"):
            return self.peak.get("activations", self.header.memory_plan.get("activations"))
        return sum(
            planned.stored_bytes for planned in self.header.activations if planned.name not in self.store.tensors
        )

    @property
    def activation_bytes(self) -> int | None:
        """Memory of all activations kept for backward: in the arena, as planned, and in the store, as measured."""
        if "activations" in self.peak:
            return self.peak["activations"]
        return None if self.kept_bytes is None else self.kept_bytes + self.peak.get("pool", 0)

    def median_us(self, phase: str = "total_us") -> float | None:
        times = [getattr(step, phase) for step in self.steps.points()]
        known = [time for time in times if time is not None]
        return statistics.median(known) if known else None


class RowSink(Protocol):
    """Takes the rows of a trace one after the other."""

    def add(self, row: Row) -> None: ...


def summarize(path: Path, make_sinks: Callable[[Header], Iterable[RowSink]] = lambda header: ()) -> TraceSummary:
    """Reads the trace once; the sinks get the same rows."""
    with TraceReader(path) as reader:
        summary = TraceSummary(path, reader.header)
        sinks = [summary, *make_sinks(reader.header)]
        for row in reader:
            for sink in sinks:
                sink.add(row)
        summary.condition, summary.complete = reader.condition(), reader.complete
    return summary
