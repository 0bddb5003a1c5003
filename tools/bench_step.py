"""The measurement of `daf bench step`."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch

from daf.exporter.cli import export
from daf.exporter.load import load_model_file
from daf.files import atomic_write
from daf.manifest import manifest_path, read_manifest
from daf.text import format_table
from daf.tools.eager import EagerTrainer

CASES: tuple[tuple[str, int, dict[str, str]], ...] = (("cnn_digits", 32, {}), ("resnet18", 8, {"width": "16"}))
MIN_SLICE_S = 0.2  # of one side, before the other has its turn


def run_bench(repeats: int, threads: int, json_path: Path | None) -> None:
    os.environ["DAF_THREADS"] = str(threads)  # read when the first kernel runs
    torch.set_num_threads(threads)
    results = [_bench_case(name, batch_size, settings, repeats, threads) for name, batch_size, settings in CASES]
    header = ("step of", "setting", "ours", "PyTorch", "ratio", "spread")
    rows = [
        (
            result["name"],
            result["setting"],
            f"{result['ours']:.2f} ms",
            f"{result['peer_value']:.2f} ms",
            f"{result['ratio']:.2f}",
            f"±{100 * result['spread'] / 2:.0f} %",
        )
        for result in results
    ]
    click.echo(format_table(rows, header))
    if json_path is not None:
        with atomic_write(json_path) as file:
            file.write(json.dumps({"results": results}, indent=2).encode() + b"\n")
        click.echo(f"wrote {json_path}")


def _bench_case(name: str, batch_size: int, settings: dict[str, str], repeats: int, threads: int) -> dict[str, Any]:
    from daf import native

    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench.pte"
        given = [option for item in settings.items() for option in ("--set", "=".join(item))]
        arguments = [name, *given, "--optimizer", "sgd", "--batch-size", str(batch_size), "-o", str(program), "--quiet"]
        export.main(arguments, standalone_mode=False)
        manifest = read_manifest(manifest_path(program))
        session = native.Session(str(program), str(manifest.path))
    model_file = load_model_file(name, {**settings, "batch_size": str(batch_size)})
    eager = EagerTrainer(model_file, manifest)
    batch = list(model_file.make_batch())
    arrays = [tensor.numpy() for tensor in batch]

    # By turns, so that whatever else the machine does falls on both.
    pairs = [(_time_ms(lambda: session.step(arrays)), _time_ms(lambda: eager.step(batch))) for _ in range(repeats)]
    ours, peer = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = [a / b for a, b in pairs]
    return {
        "name": name,
        "setting": ", ".join([*("=".join(item) for item in settings.items()), f"batch {batch_size}", _count(threads)]),
        "ours": ours,
        "peer": f"PyTorch {torch.__version__} eager",
        "peer_value": peer,
        "ratio": ours / peer,
        "unit": "ms",
        "spread": (max(ratios) - min(ratios)) / statistics.median(ratios),
    }


def _time_ms(step: Callable[[], float]) -> float:
    """Mean time of a step over at least MIN_SLICE_S, after one that warms up."""
    step()
    n_steps, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < MIN_SLICE_S or n_steps == 0:
        step()
        n_steps += 1
    return 1000 * elapsed / n_steps


def _count(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
