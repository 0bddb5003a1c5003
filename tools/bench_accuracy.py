"""The measurement of `daf bench accuracy`: what compressed activations cost in accuracy, on real data."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import torch

from daf import native
from daf.cli_types import IMPORTANCES
from daf.errors import Exit, UserError
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
IGNORED = -100  # a token that is no target
Arrays = list[npt.NDArray[np.generic]]
Scores = npt.NDArray[np.float32]
Tensors = Mapping[str, torch.Tensor]
Step = Callable[[list[torch.Tensor], float], object]
MakeSession = Callable[[int], native.Session]  # of a seed


@dataclass(frozen=True)
class AccuracyCase:
    step: StepCase
    steps: int
    lr: float
    more: tuple[str, ...] = ()  # for daf-export
    ways: tuple[tuple[str, ...], ...] = ()  # further options of daf-export, each a program of its own
    peer: tuple[str, ...] = ()  # such options too: what the ways are compared with, instead of PyTorch
    needs_data: bool = False  # in DAF_DATA_DIR
    n_test: int | None = None  # samples of the test split, evenly spaced; None: all
    calibrate: int = 4  # batches; 0: only the defaults are measured, as the rest would take hours


UPDATES = (
    ("--update", "last:1"),
    ("--update", "bias"),
    ("--update", "sparse"),
    ("--update", "sparse", "--rotate-every", "0"),
    ("--update", "sparse", "--activations", "daf"),
)
SMALL_RESNET, DECAY = StepCase("resnet18", 64, {"width": "16"}), ("--weight-decay", "5e-4")
PRETRAINED = {"resolution": "64", "pretrained": "true"}
TEXTS = {"sequence_length": "64", "pretrained": "true", "dropout": "0"}  # so short a training needs no dropout
CASES = (
    AccuracyCase(StepCase("cnn_digits", 128, {"width": "32"}), 150, 0.05),
    AccuracyCase(SMALL_RESNET, 1500, 0.1, DECAY, needs_data=True, calibrate=0),
    AccuracyCase(SMALL_RESNET, 500, 0.1, DECAY, needs_data=True),
    AccuracyCase(StepCase("mobilenet_v2", 32, PRETRAINED), 750, 0.005, needs_data=True),
    AccuracyCase(StepCase("mobilenet_v2", 32, PRETRAINED), 200, 0.005, ways=UPDATES, needs_data=True),
    # Does it pay to train other channels after a while? With AdamW: momentum, which starts again with every channel
    # that comes, gives those of SGD less to learn with.
    AccuracyCase(
        StepCase("mobilenet_v2", 32, PRETRAINED, "adamw"),
        1000,
        0.001,
        ways=(("--update", "sparse"),),
        peer=("--update", "sparse", "--rotate-every", "0"),
        needs_data=True,
    ),
    AccuracyCase(StepCase("minilm_lora", 32, TEXTS, "adamw"), 127, 3e-3, needs_data=True, calibrate=0),
    AccuracyCase(StepCase("smollm2_lora", 4, TEXTS, "adamw"), 32, 2e-3, needs_data=True, n_test=96, calibrate=0),
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
CURVE = (
    *(Variant(bits, importance) for bits in (1.5, 1.25, 1.1) for importance in IMPORTANCES),
    Variant(1.0, "uniform"),  # there is nothing to share
)
DEFAULT_WAYS = (("--activations", "daf"), ("--activations", "division"))
# A budget takes bits from a program, and never gives it more than it was exported with.
CURVE_WAYS = (("--activations", "daf", "--bits", "4"), ("--activations", "daf", "--bits", "3"))


@dataclass(frozen=True)
class Run:
    accuracy: float  # in per cent
    step_s: float  # median


def cases_of(model: str) -> tuple[AccuracyCase, ...]:
    found = tuple(case for case in CASES if case.step.model == model)
    if not found:
        names = ", ".join(dict.fromkeys(case.step.model for case in CASES))
        raise UserError(
            f"cannot measure the accuracy of {model}: there is no such case; choose one of {names}", Exit.USAGE
        )
    return found


def run_bench(cases: Sequence[AccuracyCase], n_seeds: int, curve: bool, threads: int) -> list[Result]:
    native.set_threads(threads)
    torch.set_num_threads(threads)
    possible = [case for case in cases if _is_possible(case)]  # before minutes are spent on the first one
    return [result for case in possible for result in _bench_case(case, n_seeds, curve, threads)]


def _is_possible(case: AccuracyCase) -> bool:
    """Says what is missing: the data, or the package with the weights that it starts from."""
    if case.needs_data and not os.environ.get("DAF_DATA_DIR"):
        click.echo(f"SKIP {case.step.model}: DAF_DATA_DIR is not set; set it to the folder of its data")
        return False
    try:
        model_file = load_model_file(case.step.model, case.step.all_settings)
        model_file.make_model()
        model_file.dataset("test")
    except UserError as error:
        click.echo(f"SKIP {case.step.model}: {error}")
        return False
    return True


def _bench_case(case: AccuracyCase, n_seeds: int, curve: bool, threads: int) -> Iterator[Result]:
    model_file = load_model_file(case.step.model, case.step.all_settings)
    train, test = model_file.dataset("train"), _evenly_spaced(model_file.dataset("test"), case.n_test)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "plain.pte"
        manifest = export_case(case.step, program, *_options(case), *case.peer)
        trainer = _Trainer(case, manifest, train, test, threads)

        def runs(label: str, train_one: Callable[[int], Run]) -> list[Run]:
            with click.progressbar(range(n_seeds), label=f"{case.step.model}, {label}") as seeds:
                found = [train_one(seed) for seed in seeds]
            accuracies = ", ".join(f"{run.accuracy:.2f}" for run in found)
            step_ms = 1000 * statistics.median(run.step_s for run in found)
            click.echo(f"{case.step.model}, {label}: {accuracies} %; a step takes {step_ms:.3g} ms", err=True)
            return found

        if case.peer:
            peer, peer_runs = " ".join(case.peer), runs(" ".join(case.peer), partial(trainer.train, _opener(program)))
        else:
            peer, peer_runs = PYTORCH, runs("PyTorch", partial(trainer.train_eager, model_file))
        peer_accuracy = statistics.mean(run.accuracy for run in peer_runs)
        for label, make_session in _sessions(case, program, curve):
            ours = [run.accuracy for run in runs(label, partial(trainer.train, make_session))]
            spread = (max(ours) - min(ours)) / statistics.mean(ours)
            tested = f", {case.n_test} samples tested" if case.n_test else ""
            setting = f"{case.step.setting}, {case.steps} steps, {n_seeds} seeds{tested}, {label}"
            yield Result(case.step.model, setting, statistics.mean(ours), peer, peer_accuracy, "%", spread)


def _sessions(case: AccuracyCase, plain: Path, curve: bool) -> Iterator[tuple[str, MakeSession]]:
    """What is to be measured: labels, and how to open a session. Programs are exported one at a time."""
    if not case.peer:
        yield "fp32", _opener(plain)
    for way in case.ways or DEFAULT_WAYS + (CURVE_WAYS if curve else ()):
        program = plain.with_name("way.pte")
        kept = export_case(case.step, program, *_options(case), *way).memory["activations"]
        yield f"{' '.join(way)}, {format_bytes(kept)} kept", _opener(program)
    if case.ways or not case.calibrate:
        return
    program = plain.with_name("calibrated.pte")
    calibrated = export_case(
        case.step, program, "--activations", "daf", "--calibrate", str(case.calibrate), *_options(case)
    )
    for variant in DEFAULT_VARIANTS + (CURVE if curve else ()):
        pool, budget = _budget(calibrated, variant.bits)
        yield f"{variant}, {format_bytes(pool)}", _opener(program, budget, variant.importance)


def _options(case: AccuracyCase) -> tuple[str, ...]:
    return ("--lr", str(case.lr), *case.more)


def _opener(program: Path, budget: int | None = None, importance: str | None = None) -> MakeSession:
    def make_session(seed: int) -> native.Session:
        return native.Session(
            str(program), str(manifest_path(program)), seed=seed, budget=budget, importance=importance
        )

    return make_session


def _budget(manifest: Manifest, bits: float) -> tuple[int, int]:
    """What the pool may take at so many bits on average, and the budget that gives it so much."""
    sizes = [entry["n_elements"] for entry in manifest.raw["store"]["entries"]]
    low, high = (native.store_bytes(sizes, [n] * len(sizes)) for n in (math.floor(bits), math.ceil(bits)))
    pool = low + int((bits - math.floor(bits)) * (high - low))
    return pool, manifest.memory["arena"] + manifest.memory["workspace"] + pool


def _evenly_spaced(data: Tensors, n_samples: int | None) -> Tensors:
    n_all = len(next(iter(data.values())))
    if n_samples is None or n_samples >= n_all:
        return data
    rows = torch.arange(n_samples) * n_all // n_samples
    return {name: tensor[rows] for name, tensor in data.items()}


@dataclass(frozen=True)
class _Trainer:
    case: AccuracyCase
    manifest: Manifest
    train_data: Tensors
    test_data: Tensors
    threads: int

    def train_eager(self, model_file: ModelFile, seed: int) -> Run:
        trainer = EagerTrainer(model_file, self.manifest)
        step_s = self._take_steps(trainer.step_with_lr, seed)
        trainer.model.eval()
        with torch.no_grad():
            return Run(self._accuracy(lambda inputs: trainer.model(*map(torch.from_numpy, inputs)).numpy()), step_s)

    def train(self, make_session: MakeSession, seed: int) -> Run:
        session = make_session(seed)

        def step(batch: list[torch.Tensor], lr: float) -> float:
            return session.step([tensor.numpy() for tensor in batch], lr)

        step_s = self._take_steps(step, seed)
        return Run(self._accuracy(lambda inputs: session.predict(inputs)[0]), step_s)

    def _take_steps(self, step: Step, seed: int) -> float:
        """The rate rises, then falls as a cosine. Returns the median time of a step, in seconds."""
        case, now = self.case, time.thread_time if self.threads == 1 else time.perf_counter
        n_warmup = max(1, int(WARMUP_PART * case.steps))
        times_s = []
        for i, batch in enumerate(batches_of_run(self.manifest, self.train_data, case.steps, seed)):
            part = (i - n_warmup) / (case.steps - n_warmup)
            start = now()
            step(batch, case.lr * ((i + 1) / n_warmup if i < n_warmup else 0.5 * (1 + math.cos(math.pi * part))))
            times_s.append(now() - start)
        return statistics.median(times_s)

    def _accuracy(self, predict: Callable[[Arrays], Scores]) -> float:
        """In per cent, over whole batches."""
        *inputs, target = (self.test_data[tensor.name].numpy() for tensor in self.manifest.train_step.inputs)
        n_correct, n_counted, size = 0, 0, self.manifest.batch_size
        for start in range(0, len(target) - size + 1, size):
            rows = slice(start, start + size)
            correct, counted = count(predict([np.ascontiguousarray(array[rows]) for array in inputs]), target[rows])
            n_correct, n_counted = n_correct + correct, n_counted + counted
        return 100 * n_correct / n_counted


def count(scores: Scores, target: npt.NDArray[np.int64]) -> tuple[int, int]:
    """How many targets have the highest score, and how many there are: classes, or tokens that follow each token."""
    if target.ndim == 1:
        return count_correct(scores, target) or 0, len(target)
    following = target[:, 1:]
    is_target = following != IGNORED
    return int(((scores[:, :-1].argmax(axis=2) == following) & is_target).sum()), int(is_target.sum())
