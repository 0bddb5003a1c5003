"""`daf bench` without a suite: all of them, one after the other."""

from __future__ import annotations

from daf.tools import (
    bench_accuracy,
    bench_growth,
    bench_kernels,
    bench_memory,
    bench_papers,
    bench_reduce,
    bench_step,
    bench_store,
)
from daf.tools.bench_results import Result


def run_all(quick: bool) -> list[Result]:
    threads, repeats, seeds = ((1,), 3, 1) if quick else ((1, 2), 5, 3)
    return [
        *bench_kernels.run_bench(threads, repeats, quick),
        *bench_store.run_bench(bench_store.QUICK if quick else bench_store.FULL),
        *bench_step.run_bench(bench_step.QUICK_CASES if quick else bench_step.CASES, threads, repeats, profile=False),
        *bench_memory.run_bench(bench_memory.QUICK_CASES if quick else bench_memory.CASES, None, repeats),
        *bench_papers.run_bench(bench_papers.QUICK_CASES if quick else bench_papers.CASES, repeats),
        *bench_accuracy.run_bench(
            bench_accuracy.QUICK_CASES if quick else bench_accuracy.CASES, seeds, curve=False, threads=1
        ),
        *bench_reduce.run_bench(
            bench_reduce.BACKENDS, bench_reduce.QUICK_SIZES if quick else bench_reduce.FULL_SIZES, repeats
        ),
        *bench_growth.run_bench(bench_growth.QUICK_GROWTHS if quick else bench_growth.GROWTHS, repeats),
    ]
