"""`daf phone`: a virtual phone, to train on as on any other."""

from __future__ import annotations

import time
from pathlib import Path

import click

from daf.cli_types import SIZE
from daf.errors import Exit, UserError
from daf.files import output_error
from daf.text import format_bytes, format_table

DEMO_STEPS = 6
MIN_MEMORY_BYTES, MAX_MEMORY_BYTES = 64 << 20, 64 << 30


def _say(text: str) -> None:
    click.echo(text)


@click.group(short_help="A virtual phone with a hard memory limit.")
def phone() -> None:
    """An arm64 machine in qemu with Android's adbd, and a kernel that kills what does not fit into its memory.

    It shows what fits and what is computed, never how fast: emulation is some hundred times slower than a phone.

    \b
    Examples:
      daf phone start --memory 256M
      daf run digits.pte --steps 20 --device adb
      daf phone stop
    """


@phone.command(short_help="Train on it what does not fit without compressed activations.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for everything that is written.")
@click.option("--steps", type=click.IntRange(min=2), default=DEMO_STEPS, show_default=True)
@click.pass_context
def demo(ctx: click.Context, out: Path, steps: int) -> None:
    """Train a ResNet on a virtual phone that is too small for it, then with compressed activations.

    \b
    Examples:
      daf phone demo --out demo-phone
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(out, error) from error
    from daf.tools.phone.demo import run_demo

    if not run_demo(out, steps):
        ctx.exit(Exit.CHECK_FAILED)


@phone.command(short_help="Start it.")
@click.option(
    "--memory", type=SIZE, default="256M", show_default=True, help="All of its memory; its system takes 60 MB."
)
@click.option("--cores", type=click.IntRange(1, 8), default=2, show_default=True)
def start(memory: int, cores: int) -> None:
    """Start the virtual phone. It stays until `daf phone stop`, and listens on this computer only."""
    if not MIN_MEMORY_BYTES <= memory <= MAX_MEMORY_BYTES:
        raise click.BadParameter("a virtual phone can have 64M to 64G", param_hint="--memory")
    from daf.tools.phone.detached import start_phone
    from daf.tools.phone.machine import Settings

    started_s = time.monotonic()
    running = start_phone(Settings(memory, cores), _say)
    click.echo(f"started in {time.monotonic() - started_s:.1f} s; use it with --device adb:{running.serial}")


@phone.command(short_help="Stop it.")
def stop() -> None:
    """Stop the virtual phone; what was on its storage is gone."""
    from daf.tools.phone.detached import stop_phone

    if not stop_phone():
        raise UserError("there is no virtual phone to stop", Exit.DEVICE)
    click.echo("stopped")


@phone.command(short_help="Say whether it runs.")
@click.pass_context
def status(ctx: click.Context) -> None:
    """Say whether the virtual phone runs, and how to reach it. Exit code 1 if it does not."""
    from daf.tools.phone.running import find_phone

    running = find_phone()
    if running is None:
        click.echo("not running")
        ctx.exit(Exit.CHECK_FAILED)
    rows = [
        ("device", f"adb:{running.serial}"),
        ("memory", format_bytes(running.memory_bytes)),
        ("cores", str(running.cores)),
        ("process", str(running.pid)),
    ]
    click.echo(format_table(rows))
