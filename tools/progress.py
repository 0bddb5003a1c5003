"""What a run looks like while it runs, and its summary."""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import click

from daf.text import format_bytes, format_table


@dataclass
class RunStats:
    """What is remembered of the trace rows of one run."""

    losses: list[float] = field(default_factory=list)
    step_us: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    peak: dict[str, int] = field(default_factory=dict)
    rss_baseline_bytes: int = 0
    rss_bytes: int = 0
    peak_rss_bytes: int = 0
    temperature_mc: int | None = None
    checkpoint_step: int | None = None
    reduce_fallback: str | None = None  # why the GPU was done without
    coverage: float | None = None  # of a sparse update

    def add(self, row: dict[str, Any]) -> None:
        kind = row["type"]
        if kind == "header":
            self.rss_baseline_bytes = row["rss_baseline_bytes"]
        elif kind == "step":
            self.steps.append(row["step"])
            self.losses.append(float(row["loss"]))  # "nan" and "inf" are strings: JSON has no such numbers
            self.step_us.append(row["total_us"])
            self.peak = row["peak"]
        elif kind == "counters":
            self.rss_bytes = row["rss"]
            self.temperature_mc = row.get("temperature_mc", self.temperature_mc)
        elif kind == "event" and row["event"] == "checkpoint":
            self.checkpoint_step = row["step"]
        elif kind == "event" and row["event"] == "reduce_fallback":
            self.reduce_fallback = row["reason"]
        elif kind == "event" and row["event"] == "rotate":
            self.coverage = row["coverage"]
        elif kind == "footer":
            self.peak_rss_bytes = row["peak_rss_bytes"]
            self.peak = row["peak"]

    @property
    def first_bad_step(self) -> int | None:
        """The first step whose loss is infinite or not a number."""
        bad = (step for step, loss in zip(self.steps, self.losses, strict=True) if not math.isfinite(loss))
        return next(bad, None)

    @property
    def last_step(self) -> int:
        return self.steps[-1] if self.steps else 0

    def status(self) -> str:
        status = (
            f"loss {self.losses[-1]:.4f}  {self.step_us[-1] / 1000:.2f} ms/step  "
            f"arena {format_bytes(self.peak.get('arena', 0))}  RSS {format_bytes(self.rss_bytes)}"
        )
        return status if self.temperature_mc is None else f"{status}  {self.temperature_mc / 1000:.0f} °C"

    def summary(self) -> str:
        above = self.peak_rss_bytes - self.rss_baseline_bytes
        rows = [
            ("loss", f"{self.losses[0]:.4f} -> {self.losses[-1]:.4f}"),
            ("time per step", f"{statistics.median(self.step_us) / 1000:.2f} ms (median of {len(self.step_us)})"),
            ("peak RSS", f"{format_bytes(self.peak_rss_bytes)} ({format_bytes(above)} above the empty process)"),
        ]
        rows += [(f"  {part}", size) for part, size in memory_rows(self.peak)]
        if self.coverage is not None:
            rows.append(("update coverage", format_coverage(self.coverage)))
        return format_table(rows)


def format_coverage(coverage: float) -> str:
    return f"{100 * coverage:.1f} % of the update layers' weights have trained"


def memory_rows(parts: dict[str, int]) -> list[tuple[str, str]]:
    """The memory of a session by part, to print."""
    labels = {"activations": "  kept for backward", "gradients": "  of it gradients"}
    return [(labels.get(part, part), format_bytes(size)) for part, size in parts.items()]


REDRAW_S = 0.05  # drawing every step of a small model would slow it down


class Progress:
    """A bar on a terminal; elsewhere about ten plain lines. If it is quiet, nothing but the figures."""

    def __init__(self, steps: int, first_step: int, *, quiet: bool = False) -> None:
        self.stats = RunStats()
        self._steps = steps
        self._first_step = first_step
        self._quiet = quiet
        self._line_every = max(1, math.ceil(steps / 10))
        self._bar: Any = None
        self._drawn_steps = 0
        self._drawn_s = 0.0
        if sys.stdout.isatty() and not quiet:
            self._bar = click.progressbar(
                length=steps, label="training", item_show_func=lambda text: text, show_percent=False, show_pos=True
            )

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.__exit__(kind, error, trace)

    def add(self, row: dict[str, Any]) -> None:
        self.stats.add(row)
        # A step's counters follow its row: now both are known.
        if self._quiet or row["type"] != "counters" or not self.stats.losses:
            return
        done = len(self.stats.losses)
        if self._bar:
            if done == self._steps or time.monotonic() - self._drawn_s > REDRAW_S:
                self._bar.update(done - self._drawn_steps, self.stats.status())
                self._drawn_steps, self._drawn_s = done, time.monotonic()
        elif done == 1 or done == self._steps or done % self._line_every == 0:
            width = len(str(self._first_step + self._steps))
            click.echo(f"step {self.stats.last_step:{width}}/{self._first_step + self._steps}  {self.stats.status()}")
