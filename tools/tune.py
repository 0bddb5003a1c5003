"""`daf tune`: measures reduction on this device's GPU once, so that runs need not."""

from __future__ import annotations

from pathlib import Path

import click

from daf.errors import Exit, UserError
from daf.files import check_output
from daf.tools.reduce_table import reduce_table_path

# One of each size class of the selector (runtime_ops/gpu/selector.h), as far as activations go.
SIZES = tuple(quarter << shift for shift in range(12, 20) for quarter in (4, 5, 6, 7))


@click.command(short_help="Measure the GPU once, so that runs need not.")
@click.option("--device", default="local", show_default=True, help="Only local so far.")
@click.option("--software", is_flag=True, help="Also drivers that compute on the CPU.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The table; without it, the one that runs use.")
def tune(device: str, software: bool, output: Path | None) -> None:
    """Measure each way to find ranges and to decode, on the GPU and the CPU, at sizes that activations have.

    Runs with --reduce auto learn the same while they train; with the table they start with it.

    \b
    Examples:
      daf tune
      daf tune --device local -o table.json
    """
    if device != "local":
        raise UserError(f"cannot tune {device}: only local devices so far; runs there learn by themselves", Exit.USAGE)
    path = output or reduce_table_path()
    if output is not None:
        check_output(output)
    from daf import native

    def show(size: int) -> None:
        click.echo(f"{size:>10,} values")

    key = native.tune_reduce(str(path), SIZES, software, show)
    if not key:
        raise UserError("cannot tune: no GPU can be used here (daf doctor says why); runs use the CPU", Exit.DEVICE)
    click.echo(f"wrote {path} for {key}")
