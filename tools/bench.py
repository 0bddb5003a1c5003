"""`daf bench`: speed against PyTorch, measured in the same run."""

from __future__ import annotations

from pathlib import Path

import click

from daf.files import check_output


@click.group(short_help="Measure speed against PyTorch.")
def bench() -> None:
    """Measure speed against PyTorch, on this machine, in the same run."""


@bench.command(short_help="Time of a training step.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results here.")
@click.option("--repeats", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="For both sides.")
def step(json_path: Path | None, repeats: int, threads: int) -> None:
    """Time a training step of small models, here and in PyTorch, by turns.

    Prints the median over the repeats. A ratio above 1 means that the program is slower than PyTorch.

    \b
    Examples:
      daf bench step
      daf bench step --repeats 15 --json bench.json
    """
    if json_path is not None:
        check_output(json_path)
    from daf.tools.bench_step import run_bench

    run_bench(repeats, threads, json_path)


@bench.command(short_help="Speed and waste of the activation store.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results here.")
@click.option("--quick", is_flag=True, help="Fewer repeats and smaller cases, in less than a minute.")
def store(json_path: Path | None, quick: bool) -> None:
    """Measure the activation store: its codec, its pool of pages, and what it wastes.

    \b
    pack, unpack        against memcpy of the same floats (above 1: faster)
    pages, planes       one operation of the pool, as it gets larger
    memory              over what the activations need to the byte, with random bits in every step
    steps               all activations of a model stored and read, against copying them

    \b
    Examples:
      daf bench store
      daf bench store --quick --json bench.json
    """
    if json_path is not None:
        check_output(json_path)
    from daf.tools.bench_store import FULL, QUICK, run_bench

    run_bench(QUICK if quick else FULL, json_path)
