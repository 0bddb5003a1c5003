"""`daf demo`: exports, trains and evaluates a small network, and trains the same in PyTorch."""

from __future__ import annotations

from pathlib import Path

import click

from daf.files import atomic_write, output_error


@click.command(short_help="Export and train a small CNN, and compare with PyTorch.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for everything that is written.")
@click.option("--steps", type=click.IntRange(min=1), default=220, show_default=True, help="44 steps are an epoch.")
def demo(out: Path, steps: int) -> None:
    """Train a CNN on handwritten digits as an ExecuTorch program, in float32 and compressed, then in PyTorch; compare.

    \b
    Examples:
      daf demo --out demo
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(out, error) from error
    from daf.tools.demo_steps import run_demo

    report = run_demo(out, steps)
    with atomic_write(out / "report.md") as file:
        file.write(report.encode())
    click.echo(f"\nwrote {out}/report.md, {out}/compare.html, the traces and the weights")
