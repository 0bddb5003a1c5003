"""The measurement of `daf bench accuracy`: what compressed activations cost in accuracy, on real data."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import torch

from daf import native
from daf.cli_types import IMPORTANCES
from daf.errors import UserError
from daf.exporter.load import ModelFile, load_model_file
from daf.exporter.schemes import DEFAULT_BITS
from daf.manifest import Manifest, manifest_path
from daf.text import format_bytes
from daf.tools.bench_results import Result
from daf.tools.bench_step import StepCase, export_case
from daf.tools.eager import EagerTrainer, batches_of_run
from daf.tools.evaluate import count_correct

PYTORCH = f"PyTorch {torch.__version__} eager"
WARMUP_PART = 0.1
Tensors = Mapping[str, torch.Tensor]
Step = Callable[[list[torch.Tensor], float], object]


@dataclass(frozen=True)
class AccuracyCase:
    step: StepCase
    steps: int
    lr: float
    more: tuple[str, ...] = ()  # for daf-export
    ways: tuple[tuple[str, ...], ...] = ()  # further options of daf-export, each a program of its own
    needs_data: bool = False  # in DAF_DATA_DIR


UPDATES = (
    ("--update", "last:1"),
    ("--update", "bias"),
    ("--update", "sparse"),
    ("--update", "sparse", "--rotate-every", "0"),
    ("--update", "sparse", "--activations", "daf"),
)
PRETRAINED = {"resolution": "64", "pretrained": "true"}
CASES = (
    AccuracyCase(StepCase("cnn_digits", 128, {"width": "32"}), 150, 0.05),
    AccuracyCase(StepCase("resnet18", 64, {"width": "16"}), 500, 0.1, ("--weight-decay", "5e-4"), needs_data=True),
    AccuracyCase(StepCase("mobilenet_v2", 32, PRETRAINED), 200, 0.005, ways=UPDATES, needs_data=True),
)
QUICK_CASES = (AccuracyCase(StepCase("cnn_digits", 32), 110, 0.05),)


@dataclass(frozen=True)
class Variant:
    """How stored activations are kept: so many bits on average, shared by importance."""

    bits: float
    importance: str

    def __str__(self) -> str:
        return f"{self.bits:g} bits, {self.importance}"


DEFAULT_VARIANTS = tuple(Variant(DEFAULT_BITS, importance) for importance in IMPORTANCES)
CURVE = tuple(Variant(bits, importance) for bits in (1.5, 1.25, 1.1, 1.0) for importance in IMPORTANCES)


def run_bench(cases: Sequence[AccuracyCase], n_seeds: int, curve: bool, threads: int) -> list[Result]:
    native.set_threads(threads)
    torch.set_num_threads(threads)
    possible = [case for case in cases if _is_possible(case)]  # before minutes are spent on the first one
    variants = DEFAULT_VARIANTS + (CURVE if curve else ())
    return [result for case in possible for result in _bench_case(case, n_seeds, variants)]


def _is_possible(case: AccuracyCase) -> bool:
    """Says what is missing: the data, or the package with the weights that it starts from."""
    if case.needs_data and not os.environ.get("DAF_DATA_DIR"):
        click.echo(f"SKIP {case.step.model}: DAF_DATA_DIR is not set; set it to the folder of its data")
        return False
    try:
        load_model_file(case.step.model, case.step.all_settings).make_model()
    except UserError as error:
        click.echo(f"SKIP {case.step.model}: {error}")
        return False
    return True


def _bench_case(case: AccuracyCase, n_seeds: int, variants: Sequence[Variant]) -> Iterator[Result]:
    model_file = load_model_file(case.step.model, case.step.all_settings)
    train, test = (model_file.dataset(split) for split in ("train", "test"))
    with tempfile.TemporaryDirectory() as folder:
        plain, stored, divided = (Path(folder) / f"{mode}.pte" for mode in ("fp32", "daf", "division"))
        options = ("--lr", str(case.lr), *case.more)
        manifest = export_case(case.step, plain, *options)

        def accuracies(label: str, train_one: Callable[[int], float]) -> list[float]:
            with click.progressbar(range(n_seeds), label=f"{case.step.model}, {label}") as seeds:
                found = [train_one(seed) for seed in seeds]
            click.echo(f"{case.step.model}, {label}: {', '.join(f'{value:.2f}' for value in found)} %", err=True)
            return found

        eager = accuracies("PyTorch", lambda seed: _train_eager(case, model_file, manifest, train, test, seed))

        def result(label: str, ours: list[float]) -> Result:
            spread = (max(ours) - min(ours)) / statistics.mean(ours)
            setting = f"{case.step.setting}, {case.steps} steps, {n_seeds} seeds, {label}"
            return Result(case.step.model, setting, statistics.mean(ours), PYTORCH, statistics.mean(eager), "%", spread)

        def session_of(program: Path, budget: int | None = None, importance: str | None = None) -> Callable[..., float]:
            def train_one(seed: int) -> float:
                session = native.Session(
                    str(program), str(manifest_path(program)), seed=seed, budget=budget, importance=importance
                )
                return _train(case, session, manifest, train, test, seed)

            return train_one

        yield result("fp32", accuracies("fp32", session_of(plain)))
        for way in case.ways:
            program = Path(folder) / "way.pte"
            kept = export_case(case.step, program, *options, *way).memory["activations"]
            label = f"{' '.join(way)}, {format_bytes(kept)} kept"
            yield result(label, accuracies(label, session_of(program)))
        if case.ways:
            return
        stored_manifest = export_case(case.step, stored, "--activations", "daf", "--calibrate", "4", *options)
        divided_manifest = export_case(case.step, divided, "--activations", "division", *options)
        for variant in variants:
            pool, budget = _budget(stored_manifest, variant.bits)
            label = f"{variant}, {format_bytes(pool)}"
            yield result(label, accuracies(label, session_of(stored, budget, variant.importance)))
        label = f"division, {format_bytes(divided_manifest.memory['pool'])}"
        yield result(label, accuracies(label, session_of(divided)))


def _budget(manifest: Manifest, bits: float) -> tuple[int, int]:
    """What the pool may take at so many bits on average, and the budget that gives it so much."""
    sizes = [entry["n_elements"] for entry in manifest.raw["store"]["entries"]]
    low, high = (native.store_bytes(sizes, [n] * len(sizes)) for n in (math.floor(bits), math.ceil(bits)))
    pool = low + int((bits - math.floor(bits)) * (high - low))
    return pool, manifest.memory["arena"] + manifest.memory["workspace"] + pool


def _train_eager(
    case: AccuracyCase, model_file: ModelFile, manifest: Manifest, train: Tensors, test: Tensors, seed: int
) -> float:
    trainer = EagerTrainer(model_file, manifest)
    _take_steps(case, trainer.step_with_lr, manifest, train, seed)
    trainer.model.eval()
    with torch.no_grad():
        return _accuracy(manifest, test, lambda x: trainer.model(torch.from_numpy(x)).numpy())


def _train(
    case: AccuracyCase, session: native.Session, manifest: Manifest, train: Tensors, test: Tensors, seed: int
) -> float:
    def step(batch: list[torch.Tensor], lr: float) -> float:
        return session.step([tensor.numpy() for tensor in batch], lr)

    _take_steps(case, step, manifest, train, seed)
    return _accuracy(manifest, test, lambda x: session.predict([x])[0])


def _take_steps(case: AccuracyCase, step: Step, manifest: Manifest, train: Tensors, seed: int) -> None:
    """The rate rises, then falls as a cosine."""
    n_warmup = max(1, int(WARMUP_PART * case.steps))
    for i, batch in enumerate(batches_of_run(manifest, train, case.steps, seed)):
        part = (i - n_warmup) / (case.steps - n_warmup)
        step(batch, case.lr * ((i + 1) / n_warmup if i < n_warmup else 0.5 * (1 + math.cos(math.pi * part))))


def _accuracy(
    manifest: Manifest, test: Tensors, predict: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
) -> float:
    """In per cent, over whole batches."""
    x, target = (test[tensor.name].numpy() for tensor in manifest.train_step.inputs)
    n_correct, size = 0, manifest.batch_size
    starts = range(0, len(x) - size + 1, size)
    for start in starts:
        scores = predict(np.ascontiguousarray(x[start : start + size]))
        n_correct += count_correct(scores, target[start : start + size]) or 0
    return 100 * n_correct / (len(starts) * size)
