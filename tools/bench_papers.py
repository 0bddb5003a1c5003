"""The measurement of `daf bench papers`: the ways to save memory of three papers, on one bench.

What differs from the papers, whose figures stand beside ours: the device (theirs are GPUs, phones and microcontrollers,
ours is this machine's CPU), the resolution and batch where they are smaller, and no pruning before a sparse update.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from daf import native
from daf.exporter.load import load_model_file
from daf.manifest import Manifest
from daf.tools import bench_accuracy
from daf.tools.bench_accuracy import AccuracyCase
from daf.tools.bench_memory import PYTORCH, eager_memory, our_memory
from daf.tools.bench_results import Result, Stopwatch, say
from daf.tools.bench_step import MIN_SLICE_S, StepCase, export_case, open_session, usual_step
from daf.tools.eager import EagerTrainer
from daf.tools.eager_memory import checkpoint_blocks

WAYS: dict[str, tuple[str, ...]] = {
    "fp32": (),
    "daf": ("--activations", "daf"),
    "division": ("--activations", "division"),
    "sparse": ("--update", "sparse"),
    "daf and sparse": ("--activations", "daf", "--update", "sparse"),
}
CHECKPOINTING = "PyTorch with checkpointing"
# What the papers say of the memory of activations.
PAPERS = {
    ("resnet18", "daf"): "DAF: up to 22.9x less",
    ("resnet50", "division"): "DIVISION: 10.5x less at 224 px, batch 64",
    ("resnet50", CHECKPOINTING): "DIVISION: 2.3x less",
    ("mobilenet_v2", "sparse"): "Dynamic Gradient Sparse Update: 98 % less, pruned",
}
CASES = (
    StepCase("resnet18", 64),
    StepCase("resnet50", 4, {"resolution": "224"}),
    StepCase("mobilenet_v2", 32, {"resolution": "96"}),
)
QUICK_CASES = (StepCase("resnet18", 8, {"width": "16"}),)
# Smaller ones, that learn something in minutes. A sparse update starts from trained weights only; what checkpointing
# computes is what PyTorch computes.
ACCURACY_WAYS = {
    "resnet18": (WAYS["daf"], WAYS["division"]),
    "mobilenet_v2": tuple(way for way in WAYS.values() if way),
}
ACCURACY_CASES = tuple(
    case if case.peer else replace(case, ways=ways)
    for model, ways in ACCURACY_WAYS.items()
    for case in bench_accuracy.cases_of(model)
)


def run_bench(
    cases: Sequence[StepCase], repeats: int, accuracy_cases: Sequence[AccuracyCase] = (), seeds: int = 1
) -> list[Result]:
    os.environ["DAF_THREADS"] = "1"  # for the processes
    native.set_threads(1)
    torch.set_num_threads(1)
    results = [result for case in cases for result in _bench_case(case, repeats)]
    return results + bench_accuracy.run_bench(accuracy_cases, seeds, curve=False, threads=1)


def _bench_case(case: StepCase, repeats: int) -> Iterator[Result]:
    manifest: Manifest | None = None
    for way, options in WAYS.items():
        say(f"{case.model}, {case.setting}, {way}")
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "bench.pte"
            exported = export_case(case, program, *options)
            if manifest is None:
                manifest, eager = exported, eager_memory(case, exported)
            kept, peak = our_memory(program)
            yield from _memory(case, way, kept, peak, eager.saved_bytes, eager.peak_bytes)
            yield _time(case, way, open_session(program), exported, repeats)
    assert manifest is not None
    say(f"{case.model}, {case.setting}, {CHECKPOINTING}")
    again = eager_memory(case, manifest, checkpointing=True)
    yield from _memory(case, CHECKPOINTING, again.saved_bytes, again.peak_bytes, eager.saved_bytes, eager.peak_bytes)
    yield _time_of_checkpointing(case, manifest, repeats)


def _setting(case: StepCase, way: str) -> str:
    return f"{case.setting}, {way}"


def _memory(case: StepCase, way: str, kept: int, peak: int, eager_kept: int, eager_peak: int) -> Iterator[Result]:
    paper = PAPERS.get((case.model, way))
    setting = _setting(case, way) + (f" ({paper})" if paper else "")
    yield Result(f"{case.model}, kept for backward", setting, kept / 1e6, PYTORCH, eager_kept / 1e6, "MB", 0.0)
    yield Result(f"{case.model}, peak RSS", _setting(case, way), peak / 1e6, PYTORCH, eager_peak / 1e6, "MB", 0.0)


def _time(case: StepCase, way: str, session: native.Session, manifest: Manifest, repeats: int) -> Result:
    model_file = load_model_file(case.model, case.all_settings)
    batch = list(model_file.make_batch())
    arrays = [tensor.numpy() for tensor in batch]
    eager = EagerTrainer(model_file, manifest)
    times = Stopwatch(1, MIN_SLICE_S).compare(lambda: usual_step(session, arrays), lambda: eager.step(batch), repeats)
    return _milliseconds(case, way, times.ours, times.peer, times.spread)


def _time_of_checkpointing(case: StepCase, manifest: Manifest, repeats: int) -> Result:
    model_file = load_model_file(case.model, case.all_settings)
    batch = list(model_file.make_batch())
    eager, again = EagerTrainer(model_file, manifest), EagerTrainer(model_file, manifest)
    checkpoint_blocks(again.model, {})
    times = Stopwatch(1, MIN_SLICE_S).compare(lambda: again.step(batch), lambda: eager.step(batch), repeats)
    return _milliseconds(case, CHECKPOINTING, times.ours, times.peer, times.spread)


def _milliseconds(case: StepCase, way: str, ours: float, peer: float, spread: float) -> Result:
    return Result(f"{case.model}, step", _setting(case, way), 1000 * ours, PYTORCH, 1000 * peer, "ms", spread)
