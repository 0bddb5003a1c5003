"""The summary of a trace as JSON: `daf report --json`, and the data of the page that `daf compare --html` writes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from daf.tools.trace.summary import TraceSummary

SCHEMA = 1


def summary_json(summary: TraceSummary, top: int) -> dict[str, Any]:
    header, footer = summary.header, summary.footer
    timeline = summary.timeline
    return {
        "format": "daf-report",
        "schema": SCHEMA,
        "trace": str(summary.path),
        "complete": summary.complete,
        "condition": summary.condition,
        "model": header.model,
        "program": {"file": header.program_file, "sha256": header.program_sha256},
        "daf_version": header.daf_version,
        "device": dict(header.device),
        "config": {name: _finite(value) for name, value in header.config.items()},
        "started_unix_ms": header.started_unix_ms,
        "end": None if footer is None else {"reason": footer.reason, "error": footer.error},
        "steps": summary.n_steps,
        "loss": [(step, _finite(loss)) for step, loss in summary.losses.points()],
        "step_us": {name: summary.median_us(f"{name}_us") for name in ("total", "forward", "backward", "update")},
        "peak": {**summary.peak, "all": summary.peak_held_bytes},
        "plan": dict(header.memory_plan),
        "activation_bytes": summary.activation_bytes,
        "peak_rss_bytes": summary.peak_rss_bytes,
        "rss_baseline_bytes": header.rss_baseline_bytes,
        "timeline": None if timeline is None else dataclasses.asdict(timeline),
        "activations": _activations(summary, top),
        "bits": [dataclasses.asdict(point) for point in summary.store.bits.points()],
        "drops": {"count": summary.store.n_drops, "bytes": summary.store.dropped_bytes},
        "coverage": summary.coverage,
        "events": dict(summary.events),
        "profile": None if summary.profile is None else {"step": summary.profile.step, "ops": summary.profile.ops},
    }


def _activations(summary: TraceSummary, top: int) -> list[dict[str, Any]]:
    """Those in the store by bytes x time, then those kept in the arena by bytes."""
    n_steps = max(1, summary.store.n_recorded_steps)
    modules = {item.name: item.module for item in summary.header.activations}
    stored = [
        {
            "name": use.name,
            "module": modules.get(use.name, ""),
            "scheme": "stored",
            "raw_bytes": use.raw_bytes,
            "stored_bytes": use.stored_bytes,
            "bits": use.bits,
            "byte_us_per_step": use.byte_us / n_steps,
            "drops": use.n_drops,
        }
        for use in summary.store.top(top)
    ]
    kept = sorted(
        (item for item in summary.header.activations if item.name not in summary.store.tensors),
        key=lambda item: (-item.stored_bytes, item.name),
    )
    planned = [dataclasses.asdict(item) for item in kept[: max(0, top - len(stored))]]
    return [*stored, *planned]


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
