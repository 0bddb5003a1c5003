"""A trace as CSV, a line per step."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from daf.tools.trace.rows import PARTS, WITHIN_ARENA, Counters, Event, Row, Step

_TIMES = ("forward_us", "backward_us", "update_us", "total_us")
_OF_PROCESS = ("rss", "peak_rss", "swap", "available", "pss", "temperature_mc")
_COUNTERS = (*PARTS, *WITHIN_ARENA, "pool_reserved", "pool_largest_free", *_OF_PROCESS)
COLUMNS = ("step", "t_us", "loss", "lr", "samples", *_TIMES, *_COUNTERS, "drops")


class CsvWriter:
    """A step's line is written when its counters have come, or when the next step does."""

    def __init__(self, file: BinaryIO) -> None:
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.DictWriter(self._text, COLUMNS, lineterminator="\n")
        self._writer.writeheader()
        self._step: Step | None = None
        self._n_drops = 0

    def add(self, row: Row) -> None:
        if isinstance(row, Event):
            self._n_drops += row.event == "drop"
        elif isinstance(row, Step):
            self._write(None)
            self._step = row
        elif isinstance(row, Counters):
            self._write(row)

    def close(self) -> None:
        self._write(None)
        self._text.detach()

    def _write(self, counters: Counters | None) -> None:
        step = self._step
        if step is None:
            return
        values = step.peak if counters is None or counters.step != step.step else counters.values
        fields = ("step", "t_us", "loss", "lr", "samples", *_TIMES)
        line: dict[str, object] = {name: getattr(step, name) for name in fields}
        line |= {name: values[name] for name in _COUNTERS if name in values}
        self._writer.writerow({**line, "drops": self._n_drops})
        self._step, self._n_drops = None, 0
