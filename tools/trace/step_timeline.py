"""Memory by part over one step: the last one whose stored activations the trace has, or just the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daf.tools.trace.rows import Step
from daf.tools.trace.series import Series

KEPT = "kept activations"
OTHER_ARENA = "rest of arena"


@dataclass(frozen=True, slots=True)
class StepTimeline:
    step: int
    duration_us: int
    phases: tuple[tuple[str, int, int], ...]  # name, start, duration
    flat: Mapping[str, int]  # parts that the session holds all the time
    pool_bytes: int  # what the store holds of the system's memory, used or not
    stored: tuple[tuple[int, int], ...]  # (time since the start of the step, bytes in the store), stepwise

    def level_at(self, t_us: int) -> int:
        return next((level for t, level in reversed(self.stored) if t <= t_us), 0)

    def phase_at(self, t_us: int) -> str:
        return next((name for name, start, duration in self.phases if start <= t_us <= start + duration), "")


class TimelineBuilder:
    def __init__(self) -> None:
        self._levels: Series[tuple[int, int]] = Series(1000)
        self._last: tuple[Step, tuple[tuple[int, int], ...]] | None = None

    def add_level(self, t_us: int, level_bytes: int) -> None:
        self._levels.add((t_us, level_bytes))

    def end_step(self, step: Step, is_recorded: bool) -> None:
        """`is_recorded`: the trace says what was stored in this step."""
        if is_recorded or self._last is None or not self._last[1]:
            points = ((min(max(0, t - step.start_us), step.total_us), level) for t, level in self._levels.points())
            self._last = step, tuple(points) if is_recorded else ()
        self._levels = Series(1000)

    def last(self, kept_bytes: int) -> StepTimeline | None:
        """`kept_bytes` of the arena are activations."""
        if self._last is None:
            return None
        step, stored = self._last
        flat, pool_bytes = flat_parts(step.peak, kept_bytes), step.peak.get("pool", 0)
        return StepTimeline(step.step, step.total_us, phases_of(step), flat, pool_bytes, stored)


def phases_of(step: Step) -> tuple[tuple[str, int, int], ...]:
    """Forward, then backward, then update. Updates are in truth spread over backward: only their sum is known."""
    phases, start = [], 0
    for name, duration in (("forward", step.forward_us), ("backward", step.backward_us), ("update", step.update_us)):
        if duration is not None:
            phases.append((name, start, duration))
            start += duration
    return tuple(phases)


def flat_parts(peak: Mapping[str, int], kept_bytes: int) -> dict[str, int]:
    """The parts that do not change within a step, with the arena split by what it is for."""
    parts = {name: peak.get(name, 0) for name in ("weights", "constants", "optimizer")}
    arena = peak.get("arena", 0)
    kept = min(kept_bytes, arena)
    parts |= {"workspace": peak.get("workspace", 0), OTHER_ARENA: arena - kept, KEPT: kept}
    return parts
