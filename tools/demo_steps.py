"""The steps of `daf demo`: the commands a user would type, then the comparison with PyTorch."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import torch
from safetensors.torch import load_file

from daf.errors import Exit
from daf.exporter.cli import export
from daf.exporter.load import load_model_file
from daf.manifest import Manifest, manifest_path, read_manifest
from daf.text import format_bytes, format_table, markdown_table
from daf.tools.data import data
from daf.tools.eager import EagerTrainer, batches
from daf.tools.evaluate import count_correct, evaluate, load_arrays, predict
from daf.tools.run import run

MODEL = "cnn_digits"
SEED = 0
HEADER = ("", "DAF program", "PyTorch eager", "difference")


def run_demo(out: Path, steps: int) -> str:
    """Runs everything, printing as it goes; returns the report as Markdown."""
    program, weights, trace = out / f"{MODEL}.pte", out / "weights.safetensors", out / "run.trace"
    train, test = out / "train.safetensors", out / "test.safetensors"
    optimizer = ["--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9"]
    _type("daf-export", export, MODEL, *optimizer, "--batch-size", "32", "-o", program)
    _type("daf data", data, MODEL, "--split", "train", "-o", train)
    _type("daf data", data, MODEL, "--split", "test", "-o", test)
    arguments = ["--steps", steps, "--seed", SEED, "--data", train, "--save", weights, "--trace", trace]
    _type("daf run", run, program, *arguments)
    _type("daf eval", evaluate, program, "--data", test, "--weights", weights)

    click.echo("\nThe same training in PyTorch:\n")
    manifest = read_manifest(manifest_path(program))
    eager = EagerTrainer(load_model_file(MODEL), manifest)
    eager_losses = [eager.step(inputs) for inputs in batches(manifest, load_file(train), steps, SEED)]
    rows = [
        _compare_accuracy(program, manifest, test, weights, eager.model),
        _compare_losses(trace, eager_losses),
        _compare_weights(weights, eager.model),
    ]
    click.echo(format_table(rows, HEADER))
    memory = [(part, format_bytes(size)) for part, size in _footer(trace)["peak"].items()]
    return (
        f"# {MODEL}, {steps} steps of SGD with momentum\n\n{markdown_table(rows, HEADER)}\n\n"
        f"Memory of the training, by part:\n\n{markdown_table(memory, ('part', 'peak'))}\n"
    )


def _type(name: str, command: click.Command, *arguments: object) -> None:
    """Runs a command as if typed."""
    texts = [str(argument) for argument in arguments]
    click.secho(f"\n$ {name} {shlex.join(texts)}", bold=True)
    result = command.main(texts, standalone_mode=False)
    if result == Exit.INTERRUPTED:
        raise click.Abort


def _compare_accuracy(
    program: Path, manifest: Manifest, test: Path, weights: Path, model: torch.nn.Module
) -> tuple[str, ...]:
    samples = load_arrays(test, Exit.DATA)
    scores = predict(program, manifest, samples, load_arrays(weights, Exit.WEIGHTS))["output0"]
    with torch.no_grad():
        eager_scores = model.eval()(torch.from_numpy(samples["x"])).numpy()
    ours, peer = (100 * (count_correct(s, samples["target"]) or 0) / len(s) for s in (scores, eager_scores))
    return "test accuracy", f"{ours:.2f} %", f"{peer:.2f} %", f"{abs(ours - peer):.2f} points"


def _compare_losses(trace: Path, eager_losses: list[float]) -> tuple[str, ...]:
    losses = [row["loss"] for row in _rows(trace) if row["type"] == "step"]
    largest = max(abs(a - b) for a, b in zip(losses, eager_losses, strict=True))
    return "loss of the last step", f"{losses[-1]:.6f}", f"{eager_losses[-1]:.6f}", f"{largest:.1e} at most, any step"


def _compare_weights(weights: Path, model: torch.nn.Module) -> tuple[str, ...]:
    ours, peer = load_file(weights), model.state_dict()
    largest = max((ours[name] - peer[name]).abs().max().item() for name in ours)
    n_elements = sum(tensor.numel() for tensor in ours.values())
    return "weights", f"{n_elements} values", f"{n_elements} values", f"{largest:.1e} at most"


def _rows(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


def _footer(trace: Path) -> dict[str, Any]:
    return _rows(trace)[-1]
