"""The measurement of `daf bench store`: the activation store against what it would be without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import daf.native  # noqa: F401  # loads the library that _native needs
from daf import _native
from daf.tools.bench_results import Result, say

PAGE_BYTES = (4096, 16384, 65536)
DEFAULT_PAGE_BYTES = 16384
FIXED_STEPS_BYTES = (1 << 20, 100 << 20)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    n_elements: int  # of the codec's buffer
    repeats: int
    n_pages: tuple[int, ...]
    n_operations: int
    n_fragmentation_steps: int
    n_store_steps: int


FULL = Effort(16 << 20, 15, (10**3, 10**4, 10**5, 10**6), 300_000, 10_000, 40)
QUICK = Effort(16 << 20, 5, (10**3, 10**4), 100_000, 500, 10)


def run_bench(effort: Effort) -> list[Result]:
    return [result for part in (_codec, _pool, _fragmentation, _steps) for result in part(effort)]


def _codec(effort: Effort) -> Iterator[Result]:
    """Of the floats, so that packing and copying are comparable. Above 1 is faster than memcpy."""
    say("the codec")
    codec = _native.BenchCodec(effort.n_elements)
    size_gb = effort.n_elements * 4 / 1e9
    for bits in range(1, 9):
        codec.run(bits)
        copy, pack, unpack = zip(*(codec.run(bits) for _ in range(effort.repeats)), strict=True)
        for name, times in (("pack", pack), ("unpack", unpack)):
            setting = f"{bits} {'bit' if bits == 1 else 'bits'}, {effort.n_elements * 4 >> 20} MiB, 1 thread"
            ours, peer = ([size_gb / t for t in series] for series in (times, copy))
            yield Result.of_repeats(name, setting, ours, "memcpy", peer, "GB/s")


def _pool(effort: Effort) -> Iterator[Result]:
    say("the pool of pages")
    for n in effort.n_pages:
        pairs = [_native.bench_pages(n, effort.n_operations) for _ in range(3)]
        ours, peer = zip(*pairs, strict=True)
        yield Result.of_repeats("free and take a page", f"{n:,} pages", ours, "malloc", peer, "ns")
    fewest = effort.n_pages[0]
    for n in effort.n_pages:
        pairs = [(_drop_order(n, effort), _drop_order(fewest, effort)) for _ in range(3)]
        ours, peer = zip(*pairs, strict=True)
        yield Result.of_repeats("drop the cheapest plane", f"{n:,} tensors", ours, f"{fewest:,} tensors", peer, "ns")


def _drop_order(n_tensors: int, effort: Effort) -> float:
    return _native.bench_drop_order(n_tensors, effort.n_operations)


def _fragmentation(effort: Effort) -> Iterator[Result]:
    say("fragmentation")
    n_steps = effort.n_fragmentation_steps
    for page_bytes in PAGE_BYTES:
        for among_others in (False, True):
            used, held, malloc_held = _native.bench_fragmentation(n_steps, page_bytes, among_others)
            setting = f"{_pages(page_bytes)}, {n_steps:,} steps{' among other blocks' if among_others else ''}"
            unit = "x what is needed"
            yield Result.of_repeats("memory in pages", setting, [used], "exact", [1.0], unit)
            if malloc_held:
                yield Result.of_repeats("memory held", setting, [held], "malloc", [malloc_held], unit)


def _steps(effort: Effort) -> Iterator[Result]:
    """All activations of ResNet-18 (batch 8, width 64) at 2 bits: stored, read, released."""
    say("the store in steps of training")
    for page_bytes in PAGE_BYTES:
        steps = _native.bench_store_steps(effort.n_store_steps, page_bytes, 0)
        yield Result.of_repeats(
            "store and read a step",
            f"{_pages(page_bytes)}, 2 bits, 1 thread",
            [1e3 * t for t in steps["later_s"]],
            "memcpy there and back",
            [1e3 * t for t in steps["copy_s"][1:]],
            "ms",
        )
    for step_bytes in (0, *FIXED_STEPS_BYTES):
        runs = [_native.bench_store_steps(2, DEFAULT_PAGE_BYTES, step_bytes) for _ in range(effort.repeats)]
        setting = f"growing by {step_bytes >> 20} MiB" if step_bytes else "growing by 1/32"
        yield Result.of_repeats(
            "first step",
            setting,
            [1e3 * run["first_s"] for run in runs],
            "second step",
            [1e3 * run["later_s"][0] for run in runs],
            "ms",
        )
        committed, used = ([run[key] / 1e6 for run in runs] for key in ("committed_bytes", "used_bytes"))
        yield Result.of_repeats("memory committed", setting, committed, "used", used, "MB")


def _pages(page_bytes: int) -> str:
    return f"{page_bytes >> 10} KiB pages"
