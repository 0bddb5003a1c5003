"""What `daf compare` compares: the figures of each trace, their ratios to the first, and what differs otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daf.text import format_bytes
from daf.tools.report_text import format_loss, format_ms
from daf.tools.trace.rows import PARTS
from daf.tools.trace.summary import TraceSummary

# Of the header's config: they do not make two runs different ones.
_NOT_COMPARED = frozenset({"device", "steps"})


@dataclass(frozen=True)
class Metric:
    name: str  # as --fail-if takes it
    label: str
    value: Callable[[TraceSummary], float | None]
    format: Callable[[float], str]
    unit: str  # bytes, us or 1


def _part(name: str) -> Metric:
    return Metric(name, f"  {name}", lambda summary: summary.peak.get(name), format_bytes, "bytes")


def _last_loss(summary: TraceSummary) -> float | None:
    return None if summary.last_step is None else summary.last_step.loss


METRICS: tuple[Metric, ...] = (
    Metric("activations", "activation memory", lambda summary: summary.activation_bytes, format_bytes, "bytes"),
    Metric("peak", "peak of all parts", lambda summary: summary.peak_held_bytes or None, format_bytes, "bytes"),
    *map(_part, PARTS),
    Metric("rss", "peak RSS", lambda summary: summary.peak_rss_bytes or None, format_bytes, "bytes"),
    Metric("step_time", "time per step", lambda summary: summary.median_us(), format_ms, "us"),
    Metric("loss", "loss at the end", _last_loss, format_loss, "1"),
)


@dataclass(frozen=True)
class Figure:
    """A metric of one trace."""

    value: float | None
    ratio: float | None  # to the first trace

    def text(self, metric: Metric) -> str:
        if self.value is None:
            return "-"
        ratio = "" if self.ratio is None or math.isinf(self.ratio) else f" ({self.ratio:.3g}x)"
        return metric.format(self.value) + ratio


def figures(metric: Metric, summaries: Sequence[TraceSummary]) -> list[Figure]:
    values = [metric.value(summary) for summary in summaries]
    first = values[0]
    return [Figure(values[0], None), *(Figure(value, _ratio(value, first)) for value in values[1:])]


def _ratio(value: float | None, first: float | None) -> float | None:
    if value is None or first is None:
        return None
    if first == 0:
        return 1.0 if value == 0 else math.inf
    return value / first


def table_rows(summaries: Sequence[TraceSummary]) -> list[tuple[str, ...]]:
    rows = []
    for metric in METRICS:
        cells = figures(metric, summaries)
        if any(cell.value is not None for cell in cells):
            rows.append((metric.label, *(cell.text(metric) for cell in cells)))
    return rows


def short_names(summaries: Sequence[TraceSummary]) -> list[str]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    paths = [summary.path for summary in summaries]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{index}:{path.name}" for index, path in enumerate(paths, start=1)]  # a trace given twice


def model_differences(summaries: Sequence[TraceSummary]) -> list[str]:
    """Models that are not the first one: comparing their memory says nothing about either."""
    first, names = summaries[0], short_names(summaries)
    return [
        f"{name} trains {summary.header.model} and {names[0]} trains {first.header.model}"
        for name, summary in zip(names[1:], summaries[1:], strict=True)
        if summary.header.model != first.header.model
    ]


def other_differences(summaries: Sequence[TraceSummary]) -> list[str]:
    """Whatever else is not the same, for the reader to judge."""
    columns = [_facts(summary) for summary in summaries]
    names = dict.fromkeys(name for column in columns for name in column)
    differences = []
    for name in names:
        values = [column.get(name, "-") for column in columns]
        if len(set(values)) > 1:
            differences.append(f"{name}: {' / '.join(values)}")
    return differences


def _facts(summary: TraceSummary) -> dict[str, str]:
    header = summary.header
    facts = {
        "program": header.program_sha256[:12],
        "daf version": header.daf_version,
        "device": " ".join(str(header.device.get(name, "")) for name in ("kind", "model", "abi")),
        "steps": str(summary.n_steps),
    }
    config = header.config.items()
    return facts | {name: str(value) for name, value in config if name not in _NOT_COMPARED and value is not None}
