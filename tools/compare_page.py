"""The figures of `daf compare`, for its page and for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daf.tools.comparison import METRICS, figures, other_differences, short_names
from daf.tools.report_json import summary_json
from daf.tools.trace.summary import TraceSummary

_TOP_ACTIVATIONS = 40


def comparison_json(summaries: Sequence[TraceSummary]) -> dict[str, Any]:
    metrics = []
    for metric in METRICS:
        cells = figures(metric, summaries)
        if any(cell.value is not None for cell in cells):
            values = [_plain(cell.value) for cell in cells]
            texts = ["-" if cell.value is None else metric.format(cell.value) for cell in cells]
            ratios = [_plain(cell.ratio) for cell in cells]
            metrics.append(
                {
                    "name": metric.name,
                    "label": metric.label,
                    "unit": metric.unit,
                    "values": values,
                    "texts": texts,
                    "ratios": ratios,
                }
            )
    traces = [
        {"name": name, **summary_json(summary, _TOP_ACTIVATIONS)}
        for name, summary in zip(short_names(summaries), summaries, strict=True)
    ]
    return {
        "format": "daf-comparison",
        "schema": 1,
        "metrics": metrics,
        "differences": other_differences(summaries),
        "traces": traces,
    }


def _plain(value: float | None) -> float | str | None:
    """JSON has neither NaN nor infinity."""
    return value if value is None or abs(value) < float("inf") else str(value)
