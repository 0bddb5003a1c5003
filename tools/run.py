"""`daf run`: trains an exported program on a device."""

from __future__ import annotations

import math
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import click

from daf.cli_types import IMPORTANCES, SIZE
from daf.errors import Exit, UserError
from daf.files import check_output
from daf.manifest import Manifest, example_path, program_error
from daf.tools.inputs import check_checkpoint, check_data, load_program
from daf.tools.local_device import Outcome, run_local
from daf.tools.progress import Progress, RunStats
from daf.tools.reduce_table import reduce_table_path

FILE = click.Path(path_type=Path)
STEPS = click.IntRange(1, 10**12)


def _finite(_ctx: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.")
    return value


@click.command(short_help="Train an exported program.")
@click.argument("program", type=FILE)
@click.option("--steps", type=STEPS, required=True, help="Steps to train; after --resume, further steps.")
@click.option("--data", type=FILE, help="Samples to train on; without it, the example batch beside PROGRAM.")
@click.option("--save", type=FILE, help="Write the trained weights here (and the optimizer state beside them).")
@click.option("--save-every", type=STEPS, metavar="STEPS", help="Also save while training.")
@click.option("--resume", type=FILE, help="Continue from a file that --save wrote, bit for bit.")
@click.option("--trace", type=FILE, help="Write times, memory and losses here, one JSON object per line.")
@click.option(
    "--lr",
    type=click.FloatRange(min=0),
    callback=_finite,
    help="Learning rate; without it, the one given to daf-export.",
)
@click.option("--schedule", type=click.Choice(["constant", "cosine"]), default="constant", show_default=True)
@click.option(
    "--warmup-steps", type=click.IntRange(0, 10**12), default=0, show_default=True, help="Steps of rising rate."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Order of the samples, and dropout.  [default: 0]")
@click.option("--no-shuffle", is_flag=True, help="Take the samples in the order of the file.")
@click.option("--budget", type=SIZE, help="For arena, pool and workspace together, as in 24MB; else daf-export's.")
@click.option(
    "--importance",
    type=click.Choice(IMPORTANCES),
    help="By what stored activations share their bits; else daf-export's.",
)
@click.option(
    "--reduce",
    type=click.Choice(["auto", "cpu", "vulkan", "opencl"]),
    default="auto",
    show_default=True,
    help="What finds the ranges of stored activations and decodes them; the losses are the same.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="Kernel threads; without it, DAF_THREADS or all cores.")
@click.option(
    "--device", default="local", show_default=True, help="local, qemu, adb, adb:SERIAL, adb:HOST:PORT, usb:SERIAL."
)
@click.option(
    "--via", type=click.Choice(["runner", "app"]), default="runner", show_default=True, help="What runs on a device."
)
@click.option("--keep", is_flag=True, help="Leave runner, program and data on the device, for the next run.")
@click.pass_context
def run(ctx: click.Context, /, program: Path, threads: int | None, via: str, keep: bool, **options: Any) -> None:
    """Train PROGRAM, a .pte file made by daf-export.

    \b
    Examples:
      daf run digits.pte --steps 20
      daf run digits.pte --data train.safetensors --steps 500 --save w.safetensors --trace run.trace
      daf run digits.pte --data train.safetensors --steps 500 --resume w.safetensors --save w.safetensors
      daf run digits.pte --data train.safetensors --steps 500 --device adb --trace phone.trace

    Ctrl-C stops after the current step and saves, if --save was given. Saved weights load in PyTorch:
    model.load_state_dict(safetensors.torch.load_file("w.safetensors"), strict=False).
    """
    if via == "app" and options["device"] in ("local", "qemu"):
        raise click.UsageError("--via app needs a phone: give --device adb")
    manifest = load_program(program)
    request = make_request(program, manifest, **options)
    stats, outcome = train(request, threads, keep, via)
    save, trace = options["save"], options["trace"]
    report_failure(outcome, stats, save)

    if stats.losses:
        click.echo(f"\n{stats.summary()}")
    if stats.reduce_fallback is not None:
        click.echo(f"warning: {stats.reduce_fallback}; the CPU took over, the results are the same", err=True)
    if stats.first_bad_step is not None:
        click.echo(f"warning: the loss is not finite from step {stats.first_bad_step} on; use a smaller --lr", err=True)
    if save is not None and stats.checkpoint_step is not None:
        click.echo(f"saved {save} (step {stats.checkpoint_step})")
    if trace is not None:
        click.echo(f"trace {trace}")
    if outcome.interrupted:
        click.echo(_interrupted_message(program, stats, save), err=True)
        ctx.exit(Exit.INTERRUPTED)


def make_request(
    program: Path,
    manifest: Manifest,
    *,
    steps: int,
    data: Path | None = None,
    save: Path | None = None,
    save_every: int | None = None,
    budget: int | None = None,
    importance: str | None = None,
    resume: Path | None = None,
    trace: Path | None = None,
    lr: float | None = None,
    schedule: str = "constant",
    warmup_steps: int = 0,
    seed: int | None = None,
    no_shuffle: bool = False,
    reduce: str = "auto",
    device: str = "local",
) -> dict[str, Any]:
    """Checks everything that can be checked without running, and fills in a run request."""
    if manifest.optimizer.get("name") == "none":
        raise program_error(program, "it has no optimizer, so it cannot train; export it with --optimizer sgd or adamw")
    if save_every and save is None:
        raise click.UsageError("--save-every needs --save")
    if resume is not None and seed is not None:
        raise click.UsageError("--seed cannot be changed by a resumed run; leave it out")
    if data is None:
        data = example_path(program)
        click.echo(f"no --data: training on the example batch {data}")
    check_data(data, manifest.train_step.inputs, min_samples=1 if manifest.dynamic_batch else manifest.batch_size)
    first_step = check_checkpoint(resume, manifest) if resume else 0
    for output in (save, trace):
        if output is not None:
            check_output(output)
    return {
        "schema": 1,
        "program": str(program),
        "manifest": str(manifest.path),
        "data": str(data),
        "steps": steps,
        "seed": seed or 0,
        "shuffle": not no_shuffle,
        "lr": lr,
        "schedule": schedule,
        "warmup_steps": warmup_steps,
        "total_steps": first_step + steps,
        "save": str(save) if save else None,
        "save_every": save_every or 0,
        "budget_bytes": budget,
        "importance": importance,
        "resume": str(resume) if resume else None,
        "trace": str(trace) if trace else None,
        "reduce": reduce,
        "reduce_table": str(reduce_table_path()) if device == "local" else None,
        "config": {
            "device": device,
            "batch_size": manifest.batch_size,
            "optimizer": dict(manifest.optimizer),
            "schedule": schedule,
            "steps": steps,
            "reduce": reduce,
        },
    }


def train(request: dict[str, Any], threads: int | None, keep: bool, via: str = "runner") -> tuple[RunStats, Outcome]:
    progress = Progress(request["steps"], first_step=request["total_steps"] - request["steps"])
    return progress.stats, run_on_device(request, progress, threads, keep, via)


def run_on_device(
    request: dict[str, Any], progress: Progress, threads: int | None, keep: bool = False, via: str = "runner"
) -> Outcome:
    device = request["config"]["device"]
    if device in ("local", "qemu"):
        from daf.tools.emulated_device import run_emulated

        if threads is not None:
            os.environ["DAF_THREADS"] = str(threads)  # the child inherits it
        run_here = run_local if device == "local" else run_emulated
        with progress:
            return run_here(request, progress.add, _say_stopping)
    from daf.tools.adb.device import open_device
    from daf.tools.app_run import run_in_app
    from daf.tools.remote_run import run_remote

    run_there = run_in_app if via == "app" else run_remote
    with open_device(device) as connected:
        return run_there(connected, request, progress, keep=keep, threads=threads, on_interrupt=_say_stopping)


def _say_stopping() -> None:
    click.echo("\nstopping after this step; press Ctrl-C again to kill", err=True)


def report_failure(outcome: Outcome, stats: RunStats, save: Path | None) -> None:
    """Raises if the run did not end by itself or by one Ctrl-C."""
    if outcome.return_code < 0:
        name = signal.Signals(-outcome.return_code).name
        if outcome.interrupted:
            raise UserError(f"killed at step {stats.last_step}; {_kept(stats, save)}", Exit.INTERRUPTED)
        hint = "; most likely memory ran out: use a smaller batch" if name == "SIGKILL" else ""
        raise UserError(
            f"training was killed by {name} after step {stats.last_step}{hint}; {_kept(stats, save)}", Exit.DEVICE
        )
    if outcome.return_code == Exit.CHECK_FAILED:  # what Python itself exits with: a bug, show all of it
        raise UserError(f"training failed unexpectedly:\n{outcome.error}", Exit.DEVICE)
    if outcome.return_code != 0:
        raise UserError(outcome.error.splitlines()[-1], Exit(outcome.return_code))


def _interrupted_message(program: Path, stats: RunStats, save: Path | None) -> str:
    message = f"interrupted after step {stats.last_step}; {_kept(stats, save)}"
    if stats.checkpoint_step is not None and save is not None:
        command = shlex.join(["daf", "run", str(program), "--resume", str(save)])
        message += f"; continue with: {command} --steps N ..."
    return message


def _kept(stats: RunStats, save: Path | None) -> str:
    if save is None:
        return "nothing was kept, because --save was not given"
    if stats.checkpoint_step is None:
        return "no checkpoint was written yet"
    return f"{save} holds step {stats.checkpoint_step}"
