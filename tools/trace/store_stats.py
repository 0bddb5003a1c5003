"""What happened to activations in the store: how long each was held, in how many bytes, and what was dropped."""

from __future__ import annotations

from dataclasses import dataclass

from daf.tools.trace.rows import Event
from daf.tools.trace.series import Series

STORE_EVENTS = frozenset({"stash", "fetch", "drop", "release"})
MAX_TENSORS = 20_000  # a damaged trace may invent names without end


@dataclass(slots=True)
class TensorUse:
    name: str
    raw_bytes: int = 0
    stored_bytes: int = 0  # the most at once
    bits: int = 0  # at the end
    n_stashes: int = 0
    n_drops: int = 0
    byte_us: int = 0  # stored bytes x time, over all steps
    held_bytes: int = 0  # now
    held_since_us: int = 0

    def hold(self, stored_bytes: int, t_us: int) -> None:
        self.byte_us += self.held_bytes * max(0, t_us - self.held_since_us)
        self.held_bytes, self.held_since_us = stored_bytes, t_us
        self.stored_bytes = max(self.stored_bytes, stored_bytes)


@dataclass(frozen=True, slots=True)
class StepBits:
    """The store over one step."""

    step: int
    mean_bits: float  # of a value
    n_drops: int
    dropped_bytes: int
    peak_bytes: int


@dataclass(slots=True)
class _StepCounts:
    has_events: bool = False
    is_recorded: bool = False
    n_drops: int = 0
    dropped_bytes: int = 0
    peak_bytes: int = 0


class StoreStats:
    """Drops are always in a trace, but what is stored and released only in some steps: those are `recorded`."""

    def __init__(self) -> None:
        self.tensors: dict[str, TensorUse] = {}
        self.bits: Series[StepBits] = Series(512)
        self.n_drops = 0
        self.dropped_bytes = 0
        self.n_recorded_steps = 0
        self.level_bytes = 0  # held now, by all tensors
        self._step = _StepCounts()

    def add(self, event: Event) -> None:
        use = self._use(event.tensor) if event.event in STORE_EVENTS else None
        if use is None or event.event == "fetch":
            return
        before = use.held_bytes
        if event.event == "release":
            use.hold(0, event.t_us)
        else:
            use.raw_bytes = event.fields.get("raw_bytes", use.raw_bytes)
            use.bits = event.fields.get("bits", use.bits)
            if event.event == "stash" or before:
                use.hold(event.fields.get("stored_bytes", before), event.t_us)
        if event.event == "stash":
            use.n_stashes += 1
            self._step.is_recorded = True
        elif event.event == "drop":
            use.n_drops += 1
            # Of a tensor whose size is not recorded: a plane has one bit for each value of 32.
            self._count_drop(max(0, before - use.held_bytes) if before else use.raw_bytes // 32)
        self.level_bytes = event.fields.get("used_bytes", self.level_bytes + use.held_bytes - before)
        self._step.has_events = True
        self._step.peak_bytes = max(self._step.peak_bytes, self.level_bytes)

    @property
    def step_is_recorded(self) -> bool:
        return self._step.is_recorded

    def end_step(self, step: int, t_us: int) -> None:
        """Whatever is still held counts as released: no activation outlives its step."""
        counts = self._step
        raw_bytes = sum(use.raw_bytes for use in self.tensors.values())
        if counts.has_events and raw_bytes:
            mean_bits = sum(use.bits * use.raw_bytes for use in self.tensors.values()) / raw_bytes
            self.bits.add(StepBits(step, mean_bits, counts.n_drops, counts.dropped_bytes, counts.peak_bytes))
            for use in self.tensors.values():
                use.hold(0, t_us)
        self.n_recorded_steps += counts.is_recorded
        self.level_bytes = 0
        self._step = _StepCounts()

    def top(self, count: int) -> list[TensorUse]:
        """By bytes x time."""
        return sorted(self.tensors.values(), key=lambda use: (-use.byte_us, use.name))[:count]

    def _use(self, name: str) -> TensorUse | None:
        use = self.tensors.get(name)
        if use is None and len(self.tensors) < MAX_TENSORS:
            use = self.tensors[name] = TensorUse(name)
        return use

    def _count_drop(self, freed_bytes: int) -> None:
        self.n_drops += 1
        self.dropped_bytes += freed_bytes
        self._step.n_drops += 1
        self._step.dropped_bytes += freed_bytes
