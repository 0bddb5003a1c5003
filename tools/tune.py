"""`daf tune`: measures reduction on a device's GPU once, so that runs need not."""

from __future__ import annotations

from pathlib import Path

import click

from daf.errors import Exit, UserError
from daf.files import check_output
from daf.tools.reduce_table import reduce_table_path


@click.command(short_help="Measure the GPU once, so that runs need not.")
@click.option(
    "--device", default="local", show_default=True, help="local, adb, adb:SERIAL, adb:HOST:PORT or usb:SERIAL."
)
@click.option("--software", is_flag=True, help="Also drivers that compute on the CPU.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the table here.")
def tune(device: str, software: bool, output: Path | None) -> None:
    """Measure each way to find ranges and to decode, on the GPU and the CPU, at sizes that activations have.

    Runs with --reduce auto learn the same while they train; with the table they start with it. It is kept where they
    look for it, on the device; on this machine only without --output.

    \b
    Examples:
      daf tune
      daf tune --device adb:192.168.1.20:5555 -o table.json
    """
    if output is not None:
        check_output(output)

    def show(size: int) -> None:
        click.echo(f"{size:>10,} values")

    if device == "local":
        from daf import native

        path = str(output or reduce_table_path())
        key = native.tune_reduce(path, native.tuned_sizes(), software, show)
    else:
        from daf.tools.adb.device import open_device
        from daf.tools.remote_tune import REDUCE_TABLE, tune_remote

        with open_device(device) as connected:
            path = f"{REDUCE_TABLE} on {connected}"
            key = tune_remote(connected, software, output, show)
    if not key:
        raise UserError(
            f"cannot tune {device}: no GPU can be used there (daf doctor says why for this machine); runs use the CPU",
            Exit.DEVICE,
        )
    click.echo(f"wrote {path} for {key}")
