"""The steps of `daf demo`: the commands a user would type, then the comparison with PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import torch
from safetensors.torch import load_file

from daf.errors import Exit
from daf.exporter.cli import export
from daf.exporter.load import load_model_file
from daf.manifest import Manifest, manifest_path, read_manifest
from daf.text import format_table, markdown_table
from daf.tools.compare import compare
from daf.tools.data import data
from daf.tools.eager import EagerTrainer, batches_of_run
from daf.tools.evaluate import count_correct, evaluate, load_arrays, predict
from daf.tools.progress import memory_rows
from daf.tools.run import run
from daf.tools.typed_command import type_command

MODEL = "cnn_digits"
SEED = 0
HEADER = ("", "DAF program", "PyTorch", "difference", "PyTorch from float64")
Tensors = dict[str, torch.Tensor]


def run_demo(out: Path, steps: int) -> str:
    """Runs everything, printing as it goes; returns the report as Markdown."""
    program, weights, trace = out / f"{MODEL}.pte", out / "weights.safetensors", out / "run.trace"
    train, test = out / "train.safetensors", out / "test.safetensors"
    optimizer = ["--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9"]
    type_command("daf-export", export, MODEL, *optimizer, "--batch-size", "32", "-o", program)
    type_command("daf data", data, MODEL, "--split", "train", "-o", train)
    type_command("daf data", data, MODEL, "--split", "test", "-o", test)
    arguments = ["--steps", steps, "--seed", SEED, "--data", train, "--save", weights, "--trace", trace]
    type_command("daf run", run, program, *arguments)
    type_command("daf eval", evaluate, program, "--data", test, "--weights", weights)

    click.echo("\nOnce more, with the activations in 2 bits on average:")
    small, small_weights, small_trace = out / "compressed.pte", out / "compressed.safetensors", out / "compressed.trace"
    type_command("daf-export", export, MODEL, *optimizer, "--batch-size", "32", "--activations", "daf", "-o", small)
    arguments = ["--steps", steps, "--seed", SEED, "--data", train, "--save", small_weights, "--trace", small_trace]
    type_command("daf run", run, small, *arguments)
    type_command("daf eval", evaluate, small, "--data", test, "--weights", small_weights)
    type_command("daf compare", compare, trace, small_trace, "--html", out / "compare.html")

    click.echo("\nThe same training in PyTorch, and once more in float64 to see how exact float32 is:\n")
    manifest = read_manifest(manifest_path(program))
    batches = list(batches_of_run(manifest, load_file(train), steps, SEED))
    eager, exact = (EagerTrainer(load_model_file(MODEL), manifest, dtype) for dtype in (torch.float32, torch.float64))
    eager_losses, exact_losses = ([trainer.step(inputs) for inputs in batches] for trainer in (eager, exact))
    losses = [row["loss"] for row in _rows(trace) if row["type"] == "step"]
    rows = [
        _accuracy_row(program, manifest, test, weights, eager.model),
        (
            "loss of the last step",
            f"{losses[-1]:.6f}",
            f"{eager_losses[-1]:.6f}",
            f"{_largest_difference(losses, eager_losses):.1e}",
            f"{_largest_difference(eager_losses, exact_losses):.1e}",
        ),
        _weights_row(load_file(weights), eager.model.state_dict(), exact.model.state_dict()),
    ]
    click.echo(format_table(rows, HEADER))
    click.echo("(differences are the largest of all steps and of all weights)")
    memory = memory_rows(_rows(trace)[-1]["peak"])
    return (
        f"# {MODEL}, {steps} steps of SGD with momentum\n\n{markdown_table(rows, HEADER)}\n\n"
        "Differences are the largest of all steps and of all weights. The last column is what float32 itself costs.\n\n"
        f"Memory of the training, by part:\n\n{markdown_table(memory, ('part', 'peak'))}\n"
    )


def _accuracy_row(
    program: Path, manifest: Manifest, test: Path, weights: Path, model: torch.nn.Module
) -> tuple[str, ...]:
    samples = load_arrays(test, Exit.DATA)
    scores = predict(program, manifest, samples, load_arrays(weights, Exit.WEIGHTS))["output0"]
    with torch.no_grad():
        eager_scores = model.eval()(torch.from_numpy(samples["x"])).numpy()
    ours, peer = (100 * (count_correct(s, samples["target"]) or 0) / len(s) for s in (scores, eager_scores))
    return "test accuracy", f"{ours:.2f} %", f"{peer:.2f} %", f"{abs(ours - peer):.2f}", ""


def _weights_row(ours: Tensors, eager: Tensors, exact: Tensors) -> tuple[str, ...]:
    difference, own_error = (
        max((a[name].double() - b[name].double()).abs().max().item() for name in ours)
        for a, b in ((ours, eager), (eager, exact))
    )
    norms = (sum(tensors[name].double().square().sum().item() for name in ours) ** 0.5 for tensors in (ours, eager))
    return "norm of the weights", *(f"{norm:.6f}" for norm in norms), f"{difference:.1e}", f"{own_error:.1e}"


def _largest_difference(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def _rows(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]
