"""The measurement of `daf bench reduce`: every variant on every driver, beside the CPU and a plain read."""

from __future__ import annotations

from collections.abc import Sequence

import click

import daf.native  # noqa: F401  # loads the library that _native needs
from daf import _native
from daf.tools.bench_results import Result

OPS = {"range": "range of a tensor", "ranges": "ranges of groups of 256", "decode": "decode 2 bits"}
BACKENDS = ("vulkan", "opencl")
FULL_SIZES = (1 << 14, 1 << 17, 1 << 20, 1 << 24)
QUICK_SIZES = (1 << 14, 1 << 18)


def run_bench(backends: Sequence[str], sizes: Sequence[int], repeats: int) -> list[Result]:
    results: list[Result] = []
    for backend in backends:
        try:
            device = _native.BenchReduce(backend, 1).device
        except _native.DafError as error:
            click.echo(f"{backend}: {error}")
            continue
        kind = "software: the CPU itself, so this says nothing about a GPU" if device["is_software"] else "a GPU"
        click.echo(f"{backend}: {device['name']} ({device['driver']}), {kind}")
        for size in sizes:
            results += _measure(backend, size, repeats)
    return results


def _measure(backend: str, size: int, repeats: int) -> list[Result]:
    bench = _native.BenchReduce(backend, size)
    results = []
    for op, name in OPS.items():
        variants = bench.variants(op)
        for variant in variants:  # compiles what is compiled at first use
            bench.run(op, variant)
        bench.run(op, "cpu"), bench.run_read()
        # By turns, so that whatever else the machine does falls on all.
        rounds = [
            ([bench.run(op, variant) for variant in variants], bench.run(op, "cpu"), bench.run_read())
            for _ in range(repeats)
        ]
        cpu, read = [times[1] for times in rounds], [times[2] for times in rounds]
        for i, variant in enumerate(variants):
            setting = f"{size:,} values, {variant}{', shared memory' if bench.shares_memory else ', copied'}"
            ours = _speeds(size, [times[0][i] for times in rounds])
            for peer, times in (("CPU kernels", cpu), ("plain read", read)):
                results.append(Result.of_repeats(name, setting, ours, peer, _speeds(size, times), "GB/s"))
    return results


def _speeds(size: int, seconds: Sequence[float]) -> list[float]:
    """A ratio above 1 is faster than the peer."""
    return [4e-9 * size / t for t in seconds]
