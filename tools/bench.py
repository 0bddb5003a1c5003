"""`daf bench`: speed, memory and accuracy against peers that are measured in the same run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daf.cli_types import settings_option

if TYPE_CHECKING:
    from daf.tools.bench_report import Outputs

_FILE = click.Path(path_type=Path)


def _outputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what becomes of the results; the command gets them as `outputs`."""

    @click.option("--json", "json_path", type=_FILE, help="Write the results here.")
    @click.option("--html", type=_FILE, help="Write a page with them here; it needs no network.")
    @click.option("--against", type=_FILE, help="Results of an earlier run: exit 1 if something is worse now.")
    @wraps(command)
    def with_outputs(*args: Any, json_path: Path | None, html: Path | None, against: Path | None, **given: Any) -> Any:
        suite = click.get_current_context().invoked_subcommand
        if suite is not None and (json_path or html or against or given["quick"]):
            raise click.UsageError(f"options of a suite come behind it, as in: daf bench {suite} --quick")
        given["outputs"] = None
        if suite is None:
            from daf.tools.bench_report import Outputs

            given["outputs"] = Outputs(json_path, html, against)
        return command(*args, **given)

    return with_outputs


_quick = click.option("--quick", is_flag=True, help="Fewer and smaller cases, in less than a minute.")


@click.group(short_help="Measure speed, memory and accuracy.", invoke_without_command=True)
@_outputs
@click.option("--quick", is_flag=True, help="Fewer and smaller cases, in about two minutes.")
def bench(quick: bool, outputs: Outputs | None) -> None:
    """Measure speed, memory and accuracy against peers, on this machine, in the same run.

    Both sides are run by turns, with the same number of threads. With one thread, processor time is measured, otherwise
    elapsed time. Values are medians over the repeats, the spread is that of the ratio.
    Without the name of a suite, all of them are run.

    \b
    Examples:
      daf bench --quick --html bench.html
      daf bench step --json new.json --against old.json
    """
    if outputs is None:  # a suite is named, and has its own
        return
    from daf.tools.bench_suites import run_all

    outputs.write(run_all(quick), "what")


_repeats = click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
_threads = click.option(
    "--threads", type=click.IntRange(1, 256), multiple=True, default=(1, 2), show_default=True, help="May be repeated."
)


@bench.command(short_help="Time of a training step.")
@click.argument("model", required=False)
@settings_option
@click.option("--batch-size", "batch_sizes", type=click.IntRange(min=1), multiple=True, help="May be repeated.")
@click.option("--optimizer", type=click.Choice(["sgd", "adamw"]), default="sgd", show_default=True)
@click.option("--profile", is_flag=True, help="Show where the time goes, by operator.")
@_outputs
@_repeats
@_threads
@_quick
def step(
    model: str | None,
    settings: dict[str, str],
    batch_sizes: tuple[int, ...],
    optimizer: str,
    profile: bool,
    outputs: Outputs,
    repeats: int,
    threads: tuple[int, ...],
    quick: bool,
) -> None:
    """Time a training step, here and in PyTorch: of MODEL, or of five models of the zoo.

    A ratio above 1 means that the program is slower than PyTorch.

    \b
    Examples:
      daf bench step --json bench.json
      daf bench step --quick
      daf bench step resnet18 --set width=16 --batch-size 8 --profile
      daf bench step mobilenet_v2 --batch-size 1 --batch-size 8 --batch-size 64 --threads 2
    """
    if model is None and (settings or batch_sizes):
        raise click.UsageError("--set and --batch-size need a MODEL")
    from daf.tools.bench_step import CASES, QUICK_CASES, StepCase, run_bench

    if model is not None:
        cases = tuple(StepCase(model, n, settings, optimizer) for n in batch_sizes or (8,))
    else:
        cases = QUICK_CASES if quick else CASES
    outputs.write(run_bench(cases, threads, repeats, profile), "step of")


@bench.command(short_help="Speed of the kernels.")
@_outputs
@_repeats
@_threads
@_quick
def kernels(outputs: Outputs, repeats: int, threads: tuple[int, ...], quick: bool) -> None:
    """Measure matrix products, the convolutions of ResNet-18 and MobileNetV2, and passes over memory.

    Values are speeds: a ratio above 1 means that the kernel is faster than PyTorch's.

    \b
    Examples:
      daf bench kernels --json kernels.json
      daf bench kernels --quick --threads 1
    """
    from daf.tools.bench_kernels import run_bench

    outputs.write(run_bench(threads, repeats, quick), "kernel")


@bench.command(short_help="Speed of reduction on Vulkan and OpenCL.")
@click.option(
    "--backend", "backends", type=click.Choice(["vulkan", "opencl"]), multiple=True, help="May be repeated; else both."
)
@_outputs
@_repeats
@_quick
def reduce(backends: tuple[str, ...], outputs: Outputs, repeats: int, quick: bool) -> None:
    """Measure ranges and decoding on each driver: every variant against the CPU's kernels and a plain read.

    Values are speeds, in gigabytes of float32: a ratio above 1 means that the variant is faster. On which hardware it
    ran is said first; a driver that computes on the CPU says nothing about a GPU.

    \b
    Examples:
      daf bench reduce
      daf bench reduce --backend vulkan --quick --json reduce.json
    """
    from daf.tools.bench_reduce import BACKENDS, FULL_SIZES, QUICK_SIZES, run_bench

    sizes = QUICK_SIZES if quick else FULL_SIZES
    outputs.write(run_bench(backends or BACKENDS, sizes, repeats), "what")


@bench.command(short_help="Speed and waste of the activation store.")
@_outputs
@_quick
def store(outputs: Outputs, quick: bool) -> None:
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
    from daf.tools.bench_store import FULL, QUICK, run_bench

    outputs.write(run_bench(QUICK if quick else FULL), "what")


@bench.command(short_help="Memory of training, and what saving it costs.")
@click.argument("model", required=False)
@settings_option
@click.option("--batch-size", type=click.IntRange(min=1), default=8, show_default=True, help="Of MODEL.")
@click.option("--optimizer", type=click.Choice(["sgd", "adamw"]), default="sgd", show_default=True, help="Of MODEL.")
@click.option("--bits", type=click.IntRange(1, 8), help="Of every stored activation; else as daf-export has it.")
@_outputs
@_repeats
@_quick
def memory(
    model: str | None,
    settings: dict[str, str],
    batch_size: int,
    optimizer: str,
    bits: int | None,
    outputs: Outputs,
    repeats: int,
    quick: bool,
) -> None:
    """Measure what training keeps for backward, and its peak, here and in PyTorch: of MODEL, or of four of the zoo.

    \b
    kept for backward   PyTorch's are counted by saved-tensor hooks, without parameters and the batch
    peak RSS            of a process of its own, above what it takes before the model is made
    step                with compressed activations (daf, and division: docs/encodings.md), against the fp32 program
                        and against PyTorch with the tensors quantized in saved-tensor hooks
    added to a step     by compressing: against what the hooks add to a step of PyTorch

    \b
    Examples:
      daf bench memory --json memory.json
      daf bench memory --quick
      daf bench memory resnet18 --set width=16 --batch-size 32 --bits 4
    """
    from daf.tools.bench_memory import CASES, QUICK_CASES, QUICK_WAYS, WAYS, run_bench
    from daf.tools.bench_step import StepCase

    if model is not None:
        cases: tuple[StepCase, ...] = (StepCase(model, batch_size, settings, optimizer),)
    else:
        cases = QUICK_CASES if quick else CASES
    outputs.write(run_bench(cases, bits, repeats, QUICK_WAYS if quick else tuple(WAYS)), "memory of")


@bench.command(short_help="What compression costs in accuracy, on real data.")
@click.argument("model", required=False)
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of each kind.")
@click.option("--curve", is_flag=True, help="Also with four and three bits, and with budgets down to one.")
@click.option("--threads", type=click.IntRange(1, 256), default=1, show_default=True)
@_outputs
@_quick
def accuracy(model: str | None, seeds: int, curve: bool, threads: int, outputs: Outputs, quick: bool) -> None:
    """Train in PyTorch, as an fp32 program, with compressed activations and by DIVISION; compare the test accuracy.

    The digits come with a package; CIFAR-10, MRPC and E2E are read from the folder that DAF_DATA_DIR names, and left
    out with a message where it is not set. With MODEL, of its cases alone.

    \b
    Examples:
      daf bench accuracy --quick
      DAF_DATA_DIR=~/data daf bench accuracy --curve --json accuracy.json
      DAF_DATA_DIR=~/data daf bench accuracy minilm_lora --seeds 1
    """
    from daf.tools.bench_accuracy import CASES, QUICK_CASES, cases_of, run_bench

    if model is not None and quick:
        raise click.UsageError("--quick has a case of its own; leave out MODEL or --quick")
    cases = cases_of(model) if model is not None else QUICK_CASES if quick else CASES
    outputs.write(run_bench(cases, seeds, curve, threads), "accuracy of")


@bench.command(short_help="How time and memory grow.")
@_outputs
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
@_quick
def growth(outputs: Outputs, repeats: int, quick: bool) -> None:
    """Fit how the time of a step and what it keeps grow with batch, layers, width, tokens and stored activations.

    Values are exponents: 1 means in proportion, 0 not at all.

    \b
    Examples:
      daf bench growth
      daf bench growth --quick
    """
    from daf.tools.bench_growth import GROWTHS, QUICK_GROWTHS, run_bench

    outputs.write(run_bench(QUICK_GROWTHS if quick else GROWTHS, repeats), "what")


@bench.command(short_help="Time and memory of training on a device.")
@click.option("--device", default="local", show_default=True, help="As daf run takes it: local, qemu, adb, adb:SERIAL.")
@_outputs
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@_quick
def device(device: str, outputs: Outputs, repeats: int, quick: bool) -> None:
    """Train a small program on a device, with float32 and with compressed activations, in one thread.

    \b
    step on a device    against the same program on this machine, and compressed against float32
    memory held         what the session held, against what daf-export predicted
    peak RSS            above the empty process, against the predicted peak

    \b
    Examples:
      daf bench device
      daf bench device --device adb --json phone.json
      daf bench device --device qemu --quick --repeats 1
    """
    from daf.tools.bench_device import CASE, QUICK_CASE, run_bench

    outputs.write(run_bench(QUICK_CASE if quick else CASE, device, repeats), "what")


@bench.command(short_help="The ways of three papers on one bench.")
@_outputs
@_repeats
@click.option("--seeds", type=click.IntRange(0, 100), default=1, show_default=True, help="Runs for the accuracy.")
@_quick
def papers(outputs: Outputs, repeats: int, seeds: int, quick: bool) -> None:
    """Compare DAF, DIVISION, sparse updates and their combination with PyTorch, and PyTorch with checkpointing.

    For each: what is kept for backward, the peak, and the time of a step, against PyTorch without any of it. What the
    papers say stands beside it. Then the accuracy, of smaller models on CIFAR-10 (DAF_DATA_DIR), in some 20 minutes for
    each of the seeds; --quick leaves it to `daf bench accuracy --quick`.

    \b
    Examples:
      daf bench papers --json papers.json
      daf bench papers --quick
    """
    from daf.tools.bench_papers import ACCURACY_CASES, CASES, QUICK_CASES, run_bench

    if quick:
        results = run_bench(QUICK_CASES, repeats)
    else:
        results = run_bench(CASES, repeats, ACCURACY_CASES if seeds else (), seeds)
    outputs.write(results, "way of")
