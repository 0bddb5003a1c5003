"""The tables of `daf report`."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime

from daf.text import format_bytes, format_table
from daf.tools.progress import format_coverage
from daf.tools.trace.rows import PARTS, WITHIN_ARENA, Event
from daf.tools.trace.step_timeline import StepTimeline
from daf.tools.trace.store_stats import STORE_EVENTS, StepBits
from daf.tools.trace.summary import TraceSummary

_N_ROWS = 12  # of a table over time
_BAR_WIDTH = 30


def report_text(summary: TraceSummary, top: int) -> str:
    sections = [format_table(_run_rows(summary)), _memory_table(summary)]
    if summary.timeline is not None and summary.timeline.stored:
        sections.append(_timeline_table(summary.timeline))
    sections.append(_activations_table(summary, top))
    if summary.store.bits.points():
        sections += [_bits_table(summary), _drops_text(summary, top)]
    if summary.profile is not None:
        sections.append(_operators_table(summary.profile, top))
    return "\n\n".join(section for section in sections if section)


def _run_rows(summary: TraceSummary) -> list[tuple[str, str]]:
    header = summary.header
    device = header.device
    rows = [
        ("trace", f"{summary.path} ({summary.condition})"),
        ("model", f"{header.model} ({header.program_file}, sha256 {header.program_sha256[:12]})"),
        ("device", ", ".join(str(device[name]) for name in ("kind", "model", "soc", "os", "abi") if device.get(name))),
        ("started", _time_of(header.started_unix_ms)),
        ("run", ", ".join(f"{name} {value}" for name, value in header.config.items() if value)),
        ("steps", str(summary.n_steps)),
    ]
    if summary.first_step is not None and summary.last_step is not None:
        rows += [("loss", f"{summary.first_step.loss:.4f} -> {summary.last_step.loss:.4f}")]
        rows += [("time per step", f"{format_ms(summary.median_us())} (median)")]
        for phase in ("forward", "backward", "update"):
            median = summary.median_us(f"{phase}_us")
            if median is not None:
                rows.append((f"  {phase}", format_ms(median)))
    above = summary.peak_rss_bytes - header.rss_baseline_bytes
    rows.append(("peak RSS", f"{format_bytes(summary.peak_rss_bytes)} ({format_bytes(above)} above the empty process)"))
    if summary.coverage is not None:
        rows.append(("update coverage", format_coverage(summary.coverage)))
    if summary.temperature_mc is not None:
        rows.append(("temperature", f"{summary.temperature_mc / 1000:.1f} °C at most"))
    others = {kind: n for kind, n in summary.events.items() if kind not in STORE_EVENTS | {"profile"}}
    if others:
        rows.append(("events", ", ".join(f"{kind} {n}" for kind, n in sorted(others.items()))))
    return rows


def _memory_table(summary: TraceSummary) -> str:
    plan = summary.header.memory_plan
    rows = []
    for part in PARTS:
        if part in summary.peak:
            rows.append((part, format_bytes(summary.peak[part]), _planned(plan.get(part))))
        if part == "arena":
            inside = [name for name in WITHIN_ARENA if name in summary.peak]
            if summary.peak.get("pool") and "activations" in inside:  # a part of them is in the pool
                inside.remove("activations")
            rows += [(f"  of it {name}", format_bytes(summary.peak[name]), _planned(plan.get(name))) for name in inside]
    rows.append(("all parts", format_bytes(summary.peak_held_bytes), _planned(plan.get("peak"))))
    if summary.activation_bytes is not None:
        rows.append(("activations", format_bytes(summary.activation_bytes), _planned(plan.get("activations"))))
    return format_table(rows, ("memory", "peak", "planned"))


def _timeline_table(timeline: StepTimeline) -> str:
    """Rows at even times over the step."""
    others = sum(timeline.flat.values())
    times = [timeline.duration_us * i // (_N_ROWS - 1) for i in range(_N_ROWS)]
    highest = max(1, *(level for _, level in timeline.stored))
    rows = []
    for t_us in times:
        stored = timeline.level_at(t_us)
        sizes = map(format_bytes, (stored, max(0, timeline.pool_bytes - stored), others))
        rows.append((format_ms(t_us), timeline.phase_at(t_us), *sizes, "#" * round(_BAR_WIDTH * stored / highest)))
    title = f"memory over step {timeline.step}"
    return format_table(rows, (title, "phase", "stored activations", "rest of pool", "other parts", "")).rstrip()


def _activations_table(summary: TraceSummary, top: int) -> str:
    uses = summary.store.top(top)
    if uses:
        n_steps = max(1, summary.store.n_recorded_steps)
        rows = [
            (
                use.name,
                format_bytes(use.raw_bytes),
                format_bytes(use.stored_bytes),
                str(use.bits),
                f"{use.byte_us / n_steps / 1e9:.3f}",
                str(use.n_drops),
            )
            for use in uses
        ]
        return format_table(rows, ("stored activation", "raw", "stored", "bits", "MB x ms per step", "drops"))
    planned = sorted(summary.header.activations, key=lambda item: (-item.stored_bytes, item.name))[:top]
    named = [
        (item.module, item.name, item.scheme, format_bytes(item.raw_bytes), format_bytes(item.stored_bytes))
        for item in planned
    ]
    return format_table(named, ("activation of", "name", "scheme", "raw", "kept")) if named else ""


def _bits_table(summary: TraceSummary) -> str:
    points = summary.store.bits.points()
    shown = _evenly(points, _N_ROWS)
    rows = [
        (str(p.step), f"{p.mean_bits:.2f}", str(p.n_drops), format_bytes(p.dropped_bytes), format_bytes(p.peak_bytes))
        for p in shown
    ]
    return format_table(rows, ("bits at step", "mean bits", "drops", "dropped", "most stored"))


def _drops_text(summary: TraceSummary, top: int) -> str:
    store = summary.store
    if not store.n_drops:
        return "no planes were dropped"
    worst = sorted(store.tensors.values(), key=lambda use: (-use.n_drops, use.name))[: min(top, 5)]
    names = ", ".join(f"{use.name} ({use.n_drops})" for use in worst if use.n_drops)
    return f"{store.n_drops} planes dropped, {format_bytes(store.dropped_bytes)} in all; most of: {names}"


def _operators_table(profile: Event, top: int) -> str:
    """Operators by their time in the step that was profiled."""
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for name, time_ns in profile.ops:
        times[name or "(none)"] += time_ns
        calls[name or "(none)"] += 1
    total_ns = max(1, times.total())
    rows = [
        (name, str(calls[name]), format_ms(time_ns / 1000), f"{100 * time_ns / total_ns:.0f} %")
        for name, time_ns in times.most_common(top)
    ]
    return format_table(rows, (f"operator in step {profile.step}", "calls", "time", "share"))


def _evenly(points: list[StepBits], count: int) -> list[StepBits]:
    if len(points) <= count:
        return points
    return [points[i * (len(points) - 1) // (count - 1)] for i in range(count)]


def format_ms(time_us: float | None) -> str:
    return "?" if time_us is None else f"{time_us / 1000:.2f} ms"


def _planned(size_bytes: int | None) -> str:
    return "" if size_bytes is None else format_bytes(size_bytes)


def _time_of(unix_ms: int) -> str:
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC by the device's clock")
    except (ValueError, OverflowError, OSError):  # a clock that was never set
        return f"{unix_ms} ms since 1970 by the device's clock"


def format_loss(loss: float | None) -> str:
    if loss is None:
        return "?"
    return f"{loss:.4f}" if math.isfinite(loss) else str(loss)
