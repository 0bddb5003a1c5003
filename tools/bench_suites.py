"""`daf bench` without a suite: all of them, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import click

from daf.tools import (
    bench_accuracy,
    bench_device,
    bench_growth,
    bench_kernels,
    bench_memory,
    bench_papers,
    bench_reduce,
    bench_step,
    bench_store,
)
from daf.tools.bench_results import Result

Suite = Callable[[], list[Result]]
# Exported in seconds, by other suites too: with a larger model the ways of the papers would take most of the time.
QUICK_PAPERS = (bench_device.QUICK_CASE,)


def run_all(quick: bool) -> list[Result]:
    suites, results = _suites(quick), []
    # Those of full size would fill the disk.
    with bench_step.shared_exports() if quick else nullcontext():
        for number, (name, suite) in enumerate(suites.items(), start=1):
            click.echo(f"[{number}/{len(suites)}] {name}", err=True)
            start = time.monotonic()
            results += [replace(result, suite=name) for result in suite()]
            click.echo(f"[{number}/{len(suites)}] {name}: {time.monotonic() - start:.0f} s", err=True)
    return results


def _suites(quick: bool) -> dict[str, Suite]:
    threads, repeats, seeds = ((1,), 3, 1) if quick else ((1, 2), 5, 3)
    return {
        "kernels": lambda: bench_kernels.run_bench(threads, repeats, quick),
        "store": lambda: bench_store.run_bench(bench_store.QUICK if quick else bench_store.FULL),
        "step": lambda: bench_step.run_bench(
            bench_step.QUICK_CASES if quick else bench_step.CASES, threads, repeats, profile=False
        ),
        "memory": lambda: bench_memory.run_bench(
            bench_memory.QUICK_CASES if quick else bench_memory.CASES,
            None,
            repeats,
            bench_memory.QUICK_WAYS if quick else tuple(bench_memory.WAYS),
        ),
        "papers": lambda: bench_papers.run_bench(QUICK_PAPERS if quick else bench_papers.CASES, repeats),
        "accuracy": lambda: bench_accuracy.run_bench(
            bench_accuracy.QUICK_CASES if quick else bench_accuracy.CASES, seeds, curve=False, threads=1
        ),
        "reduce": lambda: bench_reduce.run_bench(
            bench_reduce.BACKENDS, bench_reduce.QUICK_SIZES if quick else bench_reduce.FULL_SIZES, repeats
        ),
        "device": lambda: bench_device.run_bench(
            bench_device.QUICK_CASE if quick else bench_device.CASE, "local", repeats
        ),
        "growth": lambda: bench_growth.run_bench(
            bench_growth.QUICK_GROWTHS if quick else bench_growth.GROWTHS, repeats
        ),
    }
