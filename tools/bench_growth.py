"""The measurement of `daf bench growth`: how time and memory grow with the size of what is trained."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from daf import native
from daf.exporter.load import load_model_file
from daf.tools.bench_results import Result, say
from daf.tools.bench_step import StepCase, export_case, open_session

IN_PROPORTION = "in proportion"
_TRANSFORMER = {"hidden": "128", "heads": "2", "vocab": "1000", "layers": "2", "sequence_length": "32"}


@dataclass(frozen=True)
class Growth:
    """A model whose `setting` takes all of `sizes`. The work per step grows as size ** power."""

    setting: str
    sizes: tuple[int, ...]
    case: Callable[[int], StepCase]
    power: int = 1


GROWTHS = (
    Growth("batch", (4, 8, 16, 32), lambda n: StepCase("resnet18", n, {"width": "16"})),
    Growth("layers", (2, 4, 8), lambda n: StepCase("gpt2_lora", 4, {**_TRANSFORMER, "layers": str(n)})),
    Growth("width", (16, 32, 64), lambda n: StepCase("resnet18", 8, {"width": str(n)}), power=2),
    Growth("tokens", (32, 64, 128), lambda n: StepCase("gpt2_lora", 4, {**_TRANSFORMER, "sequence_length": str(n)})),
)
QUICK_GROWTHS = (Growth("batch", (8, 32), lambda n: StepCase("cnn_digits", n, {"width": "64"})),)
N_TENSORS = (1_000, 10_000, 100_000)


def run_bench(growths: Sequence[Growth], repeats: int) -> list[Result]:
    native.set_threads(1)
    torch.set_num_threads(1)
    return [*(result for growth in growths for result in _measure(growth, repeats)), _of_activations(repeats)]


def _measure(growth: Growth, repeats: int) -> Iterator[Result]:
    seconds: list[list[float]] = []  # by size, then by repeat
    kept: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        steps = []
        for size in growth.sizes:
            case = growth.case(size)
            say(f"growth with {growth.setting}: {case.model}, {case.setting}")
            manifest = export_case(case, Path(folder) / f"{size}.pte", "--activations", "daf")
            kept.append(float(manifest.memory["activations"]))
            session = open_session(Path(folder) / f"{size}.pte")
            arrays = [tensor.numpy() for tensor in load_model_file(case.model, case.all_settings).make_batch()]
            steps.append((session, arrays))
            session.step(arrays)
        for _ in range(repeats):  # by turns
            seconds.append([_seconds(session, arrays) for session, arrays in steps])
    model = growth.case(growth.sizes[0]).model
    where = f"{model}, {growth.setting} {growth.sizes[0]} to {growth.sizes[-1]}"
    work = [float(size**growth.power) for size in growth.sizes]
    exponents = [exponent(work, times) for times in seconds]
    unit = "exponent" if growth.power == 1 else f"exponent of {growth.setting}^{growth.power}"
    peers = [1.0] * repeats
    yield Result.of_repeats("growth of the time of a step", where, exponents, IN_PROPORTION, peers, unit)
    sizes = [float(size) for size in growth.sizes]
    yield Result("growth of what is kept", where, exponent(sizes, kept), IN_PROPORTION, 1.0, "exponent", 0.0)


def _seconds(session: native.Session, arrays: Sequence[object]) -> float:
    start = time.thread_time()
    session.step(arrays)  # type: ignore[arg-type]
    return time.thread_time() - start


def _of_activations(repeats: int) -> Result:
    """One drop of the cheapest plane among so many tensors: a tree's depth, not its size."""
    from daf import _native

    say("growth with the number of activations")
    exponents = []
    for _ in range(repeats):
        times = [_native.bench_drop_order(n, 50_000) for n in N_TENSORS]
        exponents.append(exponent([float(n) for n in N_TENSORS], times))
    setting = f"one drop among {N_TENSORS[0]:,} to {N_TENSORS[-1]:,} stored activations"
    return Result.of_repeats("growth of a drop", setting, exponents, IN_PROPORTION, [1.0] * repeats, "exponent")


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of values = a * sizes ** b, fitted to the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope
