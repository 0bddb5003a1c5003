"""`daf phone demo`: on a phone too small for float32, compressed activations train to the same losses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from daf.errors import UserError
from daf.exporter.cli import export
from daf.files import atomic_write
from daf.manifest import manifest_path, read_manifest
from daf.text import format_bytes, markdown_table
from daf.tools.data import data
from daf.tools.phone.machine import Settings, open_phone
from daf.tools.run import run
from daf.tools.typed_command import type_command

MODEL = Path(__file__).with_name("resnet_digits.py")
PHONE = Settings(memory_bytes=96 << 20, cores=2)
BATCH = 256
BUDGET = "24MB"  # for arena, pool and workspace
OTHER_ORDERS = (1, 2, 3)  # seeds: the losses of float32 in another order of the samples show what noise is
HEADER = ("step", "float32, this machine", "compressed, phone", "difference")

Rows = list[dict[str, Any]]


def run_demo(out: Path, steps: int) -> bool:
    """Whether it showed what it is to show. Prints as it goes, and writes report.md."""
    plain, small, train = out / "float32.pte", out / "compressed.pte", out / "train.safetensors"
    options = ["--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9", "--batch-size", BATCH]
    type_command("daf-export", export, MODEL, *options, "-o", plain)
    type_command("daf-export", export, MODEL, *options, "--activations", "daf", "--budget", BUDGET, "-o", small)
    type_command("daf data", data, MODEL, "--split", "train", "-o", train)

    click.echo("\nIn float32 where it fits, on this machine; in other orders of the samples too, to see the noise:")
    reference = _train(plain, train, steps, 0, "local", out)
    others = [_train(plain, train, steps, seed, "local", out) for seed in OTHER_ORDERS]

    memory = f"{PHONE.memory_bytes >> 20} MiB"
    click.echo(f"\nOn a virtual phone with {memory} of memory (emulated: some 20 seconds a step):")
    with open_phone(PHONE, click.echo) as device:
        click.echo(f"it runs, as {device}")
        failure = _fail_to_train(plain, train, steps, device, out)
        trained = _train(small, train, steps, 0, device, out)

    report, shown = _judge(plain, small, reference, others, trained, failure, memory)
    click.echo(f"\n{report}")
    with atomic_write(out / "report.md") as file:
        file.write(report.encode())
    return shown


def _train(program: Path, samples: Path, steps: int, seed: int, device: str, out: Path) -> Rows:
    trace = out / f"{program.stem}-{'phone' if device != 'local' else f'here-{seed}'}.trace"
    options = ["--data", samples, "--steps", steps, "--seed", seed, "--device", device, "--trace", trace]
    type_command("daf run", run, program, *options)
    return [json.loads(line) for line in trace.read_text().splitlines()]


def _fail_to_train(program: Path, samples: Path, steps: int, device: str, out: Path) -> str | None:
    """The message, if it fails as it should."""
    try:
        _train(program, samples, steps, 0, device, out)
    except UserError as error:
        click.echo(f"error: {error}")
        return str(error)
    return None


def _judge(
    plain: Path, small: Path, reference: Rows, others: list[Rows], trained: Rows, failure: str | None, memory: str
) -> tuple[str, bool]:
    expected, found = _losses(reference), _losses(trained)
    differences = [abs(a - b) for a, b in zip(expected, found, strict=True)]
    noise = max(abs(a - b) for rows in others for a, b in zip(expected, _losses(rows), strict=True))
    header, footer = trained[0], trained[-1]
    predicted = read_manifest(manifest_path(small)).memory["peak"]
    grown = footer["peak_rss_bytes"] - header["rss_baseline_bytes"]
    was_killed = failure is not None and "memory ran out" in failure
    within = max(differences) <= noise
    losses = [
        (str(index + 1), f"{a:.4f}", f"{b:.4f}", f"{abs(a - b):.4f}")
        for index, (a, b) in enumerate(zip(expected, found, strict=True))
    ]
    facts = [
        ("the phone", f"{memory}, of which {format_bytes(header['available_bytes'])} are free for a run"),
        ("float32 needs", format_bytes(read_manifest(manifest_path(plain)).memory["peak"])),
        ("float32 on the phone", failure or "was not killed"),
        ("compressed needs", f"{format_bytes(predicted)} (budget {BUDGET})"),
        ("compressed took", f"{format_bytes(grown)} (VmHWM, above the empty process)"),
        ("largest difference of the losses", f"{max(differences):.4f}"),
        ("float32 in another order", f"{noise:.4f}"),
    ]
    verdict = (
        f"{'As it should' if was_killed else 'NOT as it should'}: float32 is killed on this phone.\n"
        f"{'As it should' if within else 'NOT as it should'}: compressed activations train to the same losses."
    )
    title = f"# ResNet-18 (width 4), batch {BATCH}, on a phone with {memory}\n"
    report = f"{title}\n{markdown_table(facts, ('', ''))}\n\n{markdown_table(losses, HEADER)}\n\n{verdict}\n"
    return report, was_killed and within


def _losses(rows: Rows) -> list[float]:
    return [row["loss"] for row in rows if row["type"] == "step"]
