"""The measurement of `daf bench step`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy.typing as npt
import torch
from torch import Tensor

from daf import native
from daf.exporter.cli import export
from daf.exporter.load import load_model_file
from daf.manifest import Manifest, example_path, manifest_path, read_manifest
from daf.text import format_table
from daf.tools.bench_results import Result, Stopwatch, n_threads, say
from daf.tools.eager import EagerTrainer

MIN_SLICE_S = 0.1


@dataclass(frozen=True)
class StepCase:
    model: str
    batch_size: int
    settings: dict[str, str] = field(default_factory=dict)
    optimizer: str = "sgd"

    @property
    def all_settings(self) -> dict[str, str]:
        return {**self.settings, "batch_size": str(self.batch_size)}

    @property
    def setting(self) -> str:
        return ", ".join([*("=".join(item) for item in self.settings.items()), f"batch {self.batch_size}"])


STOCK_CASE = StepCase("mlp_digits", 32)  # also against ExecuTorch's own kernels, which have what it needs
CASES = (
    StepCase("resnet18", 32),
    StepCase("mobilenet_v2", 32, {"resolution": "96"}),
    StepCase("minilm_lora", 32, {"sequence_length": "64"}, "adamw"),
    StepCase("roberta_lora", 8, {"sequence_length": "128"}, "adamw"),
    StepCase("gpt2_lora", 2, {"sequence_length": "128"}, "adamw"),
    STOCK_CASE,
)
QUICK_CASES = (STOCK_CASE, StepCase("cnn_digits", 32, {"width": "64"}), StepCase("resnet18", 8, {"width": "16"}))


def run_bench(cases: Sequence[StepCase], threads: Sequence[int], repeats: int, profile: bool) -> list[Result]:
    return [result for case in cases for result in _bench_case(case, threads, repeats, profile)]


def _bench_case(case: StepCase, threads: Sequence[int], repeats: int, profile: bool) -> Iterator[Result]:
    say(f"{case.model}, {case.setting}")
    native.set_threads(max(threads))  # the session's workspace has room for them
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench.pte"
        manifest = export_case(case, program)
        session = open_session(program)
    model_file = load_model_file(case.model, case.all_settings)
    batch = list(model_file.make_batch())
    arrays = [tensor.numpy() for tensor in batch]

    def result(n: int, peer_name: str, peer: Callable[[list[Tensor]], float]) -> Result:
        native.set_threads(n)
        torch.set_num_threads(n)
        times = Stopwatch(n, MIN_SLICE_S).compare(lambda: session.step(arrays), lambda: peer(batch), repeats)
        setting = f"{case.setting}, {n_threads(n)}"
        return Result(case.model, setting, 1000 * times.ours, peer_name, 1000 * times.peer, "ms", times.spread)

    eager = EagerTrainer(model_file, manifest)
    for n in threads:
        yield result(n, f"PyTorch {torch.__version__} eager", eager.step)
        if profile:
            click.echo(f"{case.model}, {case.setting}, {n_threads(n)}\n{profile_table(session)}\n")
    if case == STOCK_CASE:
        from daf.tools.stock import StockTrainer

        yield result(1, "ExecuTorch's kernels, no update", StockTrainer(model_file).step)


def export_case(case: StepCase, program: Path, *more: str) -> Manifest:
    given = [option for item in case.settings.items() for option in ("--set", "=".join(item))]
    options = ["--optimizer", case.optimizer, "--batch-size", str(case.batch_size), "--quiet"]
    arguments = (case.model, *given, *options, *more)
    if _shared is None:
        _export(arguments, program)
    else:
        _shared.copy(arguments, program)
    return read_manifest(manifest_path(program))


def _export(arguments: tuple[str, ...], program: Path) -> None:
    export.main([*arguments, "-o", str(program)], standalone_mode=False)


class _SharedExports:
    """What was exported once is copied when it is asked for again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs: dict[tuple[str, ...], Path] = {}

    def copy(self, arguments: tuple[str, ...], program: Path) -> None:
        if arguments not in self._programs:
            exported = self._folder / f"{len(self._programs)}.pte"
            _export(arguments, exported)
            self._programs[arguments] = exported
        for path_of in (Path, manifest_path, example_path):
            shutil.copyfile(path_of(self._programs[arguments]), path_of(program))


_shared: _SharedExports | None = None


@contextmanager
def shared_exports() -> Iterator[None]:
    """Several suites measure the same programs, and exporting one takes longer than measuring it."""
    global _shared
    with tempfile.TemporaryDirectory() as folder:
        _shared = _SharedExports(Path(folder))
        try:
            yield
        finally:
            _shared = None


def open_session(program: Path) -> native.Session:
    return native.Session(str(program), str(manifest_path(program)))


# With daf, steps that measure importance, after the first ones of a training. As measures_importance() in
# runtime_ops/session/session.cpp.
MEASURING_EVERY = 50


def usual_step(session: native.Session, arrays: Sequence[npt.NDArray[Any]]) -> float:
    """One that does not measure importance; but the first of a session does, as all others share their bits by it."""
    if session.step_count % MEASURING_EVERY == 0 and session.step_count > 0:
        session.set_step_count(session.step_count + 1)
    elif 0 < session.step_count < MEASURING_EVERY:
        session.set_step_count(MEASURING_EVERY + 1)
    return session.step(arrays)


def profile_table(session: native.Session) -> str:
    """Where the time of the last step went, by operator."""
    totals: dict[str, list[float]] = {}
    for name, elapsed_us in session.profile():
        entry = totals.setdefault(name, [0, 0.0])
        entry[0] += 1
        entry[1] += elapsed_us
    total_us = sum(elapsed_us for _, elapsed_us in totals.values())
    rows = [
        (name, str(int(n_calls)), f"{elapsed_us / 1000:.2f} ms", f"{100 * elapsed_us / total_us:.1f} %")
        for name, (n_calls, elapsed_us) in sorted(totals.items(), key=lambda item: -item[1][1])
    ]
    return format_table(rows, ("operator", "calls", "time", "part"))
