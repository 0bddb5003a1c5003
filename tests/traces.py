"""Traces made by hand, with the events of an activation store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
PARTS = {"weights": 4000, "constants": 0, "optimizer": 4000, "arena": 100_000, "workspace": 20_000}
TENSORS = {"conv1": (64_000, 8), "conv2": (32_000, 4), "fc": (16_000, 2)}  # raw bytes, planned bits
STEP_US = 10_000


def header(**changes: Any) -> Line:
    activations = [
        {"name": name, "module": f"net.{name}", "scheme": "planes", "raw_bytes": raw, "stored_bytes": raw * bits // 32}
        for name, (raw, bits) in TENSORS.items()
    ]
    kept = {"name": "bn", "module": "net.bn", "scheme": "keep", "raw_bytes": 256, "stored_bytes": 256}
    return {
        "type": "header",
        "format": "daf-trace",
        "schema": 1,
        "minor": 1,
        "daf_version": "0.1.0",
        "device": {"kind": "runner", "model": "Phone 1", "soc": "Chip", "os": "Android 14", "abi": "arm64-v8a"},
        "program": {"file": "net.pte", "sha256": "ab" * 32, "model": "net"},
        "config": {"batch_size": 8, "optimizer": {"name": "sgd", "lr": 0.1}, "budget_bytes": 24_000},
        "clock": {"unit": "us", "started_unix_ms": 1_700_000_000_000},
        "memory_plan": {**PARTS, "activations": 20_256, "peak": 148_256},
        "rss_baseline_bytes": 10_000_000,
        "activations": [*activations, kept],
        **changes,
    }


def step_rows(step: int) -> Iterator[Line]:
    """Three activations are stored in forward, one loses a plane to make room, all are released in backward."""
    start = (step - 1) * STEP_US

    def event(kind: str, at_us: int, name: str, bits: int, phase: str) -> Line:
        raw = TENSORS[name][0]
        sizes = {"raw_bytes": raw, "stored_bytes": raw * bits // 32, "bits": bits}
        where = {"t_us": start + at_us, "step": step, "phase": phase, "tensor": name}
        return {"type": "event", "event": kind, **where, **sizes}

    yield event("stash", 1000, "conv1", 8, "forward")
    yield event("stash", 2000, "conv2", 4, "forward")
    yield event("drop", 2500, "conv1", 7, "forward")
    yield event("stash", 3000, "fc", 2, "forward")
    for at_us, name, bits in ((6000, "fc", 2), (7000, "conv2", 4), (9000, "conv1", 7)):
        yield event("fetch", at_us, name, bits, "backward")
        yield event("release", at_us, name, bits, "backward")
    end = start + STEP_US
    pool = {"pool": 20_000, "pool_reserved": 24_000, "pool_largest_free": 4000}
    yield {
        "type": "step",
        "step": step,
        "t_us": end,
        "loss": 2.5 / step,
        "lr": 0.1,
        "samples": 8,
        "forward_us": 4000,
        "backward_us": 5000,
        "update_us": 1000,
        "total_us": STEP_US,
        "peak": {**PARTS, "pool": 20_000},
    }
    if step == 2:
        ops = [["daf::gemm.out", 3_000_500], ["aten::add.out", 1_000_000], ["daf::gemm.out", 2_000_000]]
        yield {"type": "event", "event": "profile", "t_us": start, "step": step, "ops": ops}
    counters = {**PARTS, **pool, "rss": 12_000_000, "swap": 1000, "temperature_mc": 41_500}
    yield {"type": "counters", "step": step, "t_us": end, **counters}


def footer(steps: int) -> Line:
    return {
        "type": "footer",
        "completed": True,
        "reason": "done",
        "steps": steps,
        "peak_rss_bytes": 12_500_000,
        "peak": {**PARTS, "pool": 20_000},
        "t_us": steps * STEP_US,
        "error": None,
    }


def trace_lines(steps: int, **header_changes: Any) -> list[Line]:
    rows = (row for step in range(1, steps + 1) for row in step_rows(step))
    return [header(**header_changes), *rows, footer(steps)]


def write_trace(path: Path, lines: Iterable[Line]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
