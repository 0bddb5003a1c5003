"""What all benchmarks share: both sides are measured by turns, and results are a ratio to the peer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

Action = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """`ours` and `peer_value` are medians, in `unit`; `spread` is that of the ratio over the repeats, relative."""

    name: str
    setting: str
    ours: float
    peer: str
    peer_value: float
    unit: str
    spread: float
    suite: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.peer_value

    @classmethod
    def of_repeats(
        cls, name: str, setting: str, ours: Sequence[float], peer: str, peer_values: Sequence[float], unit: str
    ) -> Result:
        """Of what was measured by turns."""
        ratios = [a / b for a, b in zip(ours, peer_values, strict=True)]
        spread = (max(ratios) - min(ratios)) / statistics.median(ratios)
        return cls(name, setting, statistics.median(ours), peer, statistics.median(peer_values), unit, spread)


@dataclass(frozen=True)
class Times:
    """Seconds per call."""

    ours: float
    peer: float
    spread: float


# The threads of PyTorch's pool go on looking for work for some milliseconds after a call, on a core that the other side
# would then lack: before its turn each side waits until they sleep, and wakes its own.
SETTLE_S = 0.02


class Stopwatch:
    """With one thread the clock is that of the processor time: what else the machine does is not counted."""

    def __init__(self, threads: int, min_slice_s: float) -> None:
        self._now = time.thread_time if threads == 1 else time.perf_counter
        self._settle_s = 0.0 if threads == 1 else SETTLE_S
        self._min_slice_s = min_slice_s  # of one side, before the other has its turn

    def compare(self, ours: Action, peer: Action, repeats: int) -> Times:
        """By turns, so that whatever else the machine does falls on both."""
        ours(), peer()  # warm up
        pairs = [(self.seconds(ours), self.seconds(peer)) for _ in range(repeats)]
        a, b = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratios = [x / y for x, y in pairs]
        return Times(a, b, (max(ratios) - min(ratios)) / statistics.median(ratios))

    def seconds(self, action: Action) -> float:
        """Mean of a slice."""
        if self._settle_s:
            time.sleep(self._settle_s)
            action()
        n_calls, start = 0, self._now()
        while (elapsed := self._now() - start) < self._min_slice_s or n_calls == 0:
            action()
            n_calls += 1
        return elapsed / n_calls


def say(text: str) -> None:
    """What is measured now, for those who wait."""
    click.echo(f"measuring {text}", err=True)


def n_threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
