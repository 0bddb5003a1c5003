"""What fits into the memory of a device: said before a run that may not, and after one that did not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daf.text import format_bytes
from daf.tools.adb.oom import OomRecord

_BUDGETED = ("arena", "pool", "workspace")  # what --budget is for
_FIXED = ("weights", "constants", "optimizer", "batch", "runtime")
_USABLE = 0.85  # of what the device says is available: the process itself and the kernel need some


@dataclass
class RunMemory:
    """What the rows of a run said about memory so far."""

    available_bytes: int = 0  # before it
    plan: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)  # after its last step

    def add(self, row: Mapping[str, Any]) -> None:
        if row["type"] == "header":
            self.available_bytes = row.get("available_bytes") or 0
            self.plan = dict(row["memory_plan"])
        elif row["type"] == "counters":
            self.held = {name: row[name] for name in (*_FIXED, *_BUDGETED) if name in row}


def warn_of_size(plan: Mapping[str, int], budget_bytes: int | None, free_bytes: int | None) -> str | None:
    """Before a run: it may be killed."""
    needed = needed_bytes(plan, budget_bytes)
    if not free_bytes or needed <= free_bytes:
        return None
    return (
        f"the program needs {format_bytes(needed)} and the device has {format_bytes(free_bytes)} free: it may be killed"
    )


def needed_bytes(plan: Mapping[str, int], budget_bytes: int | None) -> int:
    """As predicted by the exporter; a budget bounds a part of it."""
    budgeted = sum(plan.get(name, 0) for name in _BUDGETED)
    return plan.get("peak", 0) - budgeted + min(budgeted, budget_bytes or budgeted)


def fitting_budget_bytes(memory: RunMemory) -> int:
    """For --budget, in whole megabytes; 0 if nothing would fit."""
    fixed = sum(memory.plan.get(name, 0) for name in _FIXED)
    return max(0, math.floor((_USABLE * memory.available_bytes - fixed) / 1e6) * 10**6)


def explain_kill(record: OomRecord, memory: RunMemory, last_step: int) -> str:
    """After a run that was killed: what it held, what it needs, what would fit."""
    parts = memory.held or memory.plan
    listed = ", ".join(f"{name} {format_bytes(parts[name])}" for name in (*_FIXED, *_BUDGETED) if parts.get(name))
    needed = format_bytes(memory.plan.get("peak", 0))
    text = (
        f"{record.killer} killed it after step {last_step}, because memory ran out: it held "
        f"{format_bytes(record.held_bytes)}, of {format_bytes(memory.available_bytes)} that were free before it; it "
        f"needs {needed} ({listed})"
    )
    budget = fitting_budget_bytes(memory)
    if not budget:
        return f"{text}; use a smaller model"
    export = "" if memory.plan.get("pool") else "export it with --activations daf and "
    return f"{text}; {export}run it with --budget {budget // 10**6}MB, or use a smaller batch"
