"""The measurement of `daf bench memory`: what training keeps for backward, its peak, and what that costs in time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from daf import native
from daf.exporter.load import load_model_file
from daf.manifest import Manifest, example_path, manifest_path, read_manifest
from daf.tools.bench_results import Result, Stopwatch, Times, say
from daf.tools.bench_step import MEASURING_EVERY, MIN_SLICE_S, StepCase, export_case, open_session, usual_step
from daf.tools.eager import EagerTrainer
from daf.tools.eager_memory import EagerMemory, QuantizedSavedTensors, measure_eager
from daf.tools.local_device import run_local
from daf.tools.progress import RunStats
from daf.tools.run import make_request, report_failure

CASES = (
    StepCase("resnet18", 128),
    StepCase("mobilenet_v2", 32, {"resolution": "96"}),
    StepCase("roberta_lora", 8, {"sequence_length": "128"}, "adamw"),
    StepCase("gpt2_lora", 2, {"sequence_length": "128"}, "adamw"),
)
QUICK_CASES = (StepCase("resnet18", 8, {"width": "16"}),)
WAYS = {"daf": "--bits", "division": "--hfc-bits"}  # of --activations, and its option for the bits
QUICK_WAYS = ("daf",)
STEPS = 2  # the second one has the memory of all that follow
PYTORCH = f"PyTorch {torch.__version__} eager"
NAIVE_BITS = 2
HOOKS = f"PyTorch, {NAIVE_BITS} bits in saved-tensor hooks"


def run_bench(
    cases: Sequence[StepCase], bits: int | None, repeats: int, ways: Sequence[str] = tuple(WAYS)
) -> list[Result]:
    os.environ["DAF_THREADS"] = "1"  # for the processes
    native.set_threads(1)
    torch.set_num_threads(1)
    return [result for case in cases for result in _bench_case(case, bits, repeats, ways)]


def _bench_case(case: StepCase, bits: int | None, repeats: int, ways: Sequence[str]) -> Iterator[Result]:
    say(f"{case.model}, {case.setting}")
    with tempfile.TemporaryDirectory() as folder:
        plain, *others = programs = [Path(folder) / f"{mode}.pte" for mode in ("fp32", *ways)]
        manifest = export_case(case, plain)
        for program in others:
            chosen = [] if bits is None else [WAYS[program.stem], str(bits)]
            export_case(case, program, "--activations", program.stem, *chosen)
        eager = eager_memory(case, manifest)
        for program in programs:
            kept, peak = our_memory(program)
            setting = f"{case.setting}, {program.stem}"
            yield _megabytes(f"{case.model}, kept for backward", setting, kept, eager.saved_bytes)
            yield _megabytes(f"{case.model}, peak RSS", setting, peak, eager.peak_bytes)
        yield from _times(case, manifest, {p.stem: open_session(p) for p in programs}, repeats)


def eager_memory(case: StepCase, manifest: Manifest, checkpointing: bool = False) -> EagerMemory:
    return measure_eager(case.model, case.all_settings, dict(manifest.optimizer), STEPS, checkpointing)


def our_memory(program: Path) -> tuple[int, int]:
    """Bytes kept for backward, and the peak above the process before it loaded the program; as in `daf run`."""
    rows: list[dict[str, Any]] = []
    request = make_request(program, read_manifest(manifest_path(program)), steps=STEPS, data=example_path(program))
    report_failure(run_local(request, rows.append, lambda: None), RunStats(), None)
    return rows[-1]["peak"]["activations"], rows[-1]["peak_rss_bytes"] - rows[0]["rss_baseline_bytes"]


def _megabytes(name: str, setting: str, ours: int, peer: int) -> Result:
    return Result(name, setting, ours / 1e6, PYTORCH, peer / 1e6, "MB", 0.0)


def _times(
    case: StepCase, manifest: Manifest, sessions: Mapping[str, native.Session], repeats: int
) -> Iterator[Result]:
    """A step with compressed activations against one without, and against compressing with PyTorch's operators."""
    model_file = load_model_file(case.model, case.all_settings)
    batch = list(model_file.make_batch())
    arrays = [tensor.numpy() for tensor in batch]
    eager, naive = EagerTrainer(model_file, manifest), EagerTrainer(model_file, manifest)

    def naive_step() -> float:
        with QuantizedSavedTensors(naive.model, NAIVE_BITS):
            return naive.step(batch)

    stopwatch = Stopwatch(1, MIN_SLICE_S)

    def step(mode: str) -> float:
        return usual_step(sessions[mode], arrays)

    def measuring_step() -> float:
        sessions["daf"].set_step_count(MEASURING_EVERY)
        return sessions["daf"].step(arrays)

    def compare(mode: str) -> Times:
        return stopwatch.compare(lambda: step(mode), lambda: step("fp32"), repeats)

    ours, others = compare("daf"), {mode: compare(mode) for mode in sessions if mode not in ("fp32", "daf")}
    # Each ratio is of two that took turns: between one comparison and the next, the machine may get other work.
    measuring = stopwatch.compare(measuring_step, lambda: step("fp32"), repeats)
    plain = stopwatch.compare(lambda: step("daf"), lambda: eager.step(batch), repeats)
    naively = stopwatch.compare(lambda: step("daf"), naive_step, repeats)
    hooks = stopwatch.compare(naive_step, lambda: eager.step(batch), repeats)

    def result(name: str, value: float, peer: str, peer_value: float, spread: float, mode: str = "daf") -> Result:
        setting = f"{case.setting}, {mode}, 1 thread"
        return Result(f"{case.model}, {name}", setting, 1000 * value, peer, 1000 * peer_value, "ms", spread)

    both = max(ours.spread, hooks.spread)
    yield result("step", ours.ours, "fp32 program", ours.peer, ours.spread)
    for mode, times in others.items():
        yield result("step", times.ours, "fp32 program", times.peer, times.spread, mode)
    name = f"step that measures importance, 1 of {MEASURING_EVERY}"
    yield result(name, measuring.ours, "fp32 program", measuring.peer, measuring.spread)
    yield result("step", plain.ours, PYTORCH, plain.peer, plain.spread)
    yield result("step", naively.ours, HOOKS, naively.peer, naively.spread)
    yield result("added to a step", max(ours.ours - ours.peer, 0.0), HOOKS, hooks.ours - hooks.peer, both)
