"""`daf-export`: parses, runs the pipeline, prints what came out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daf.cli_errors import run_command
from daf.cli_types import BITS, IMPORTANCES, SIZE, settings_option
from daf.errors import Exit, UserError
from daf.exporter.silence import silenced
from daf.exporter.update_options import update_options, update_settings
from daf.files import check_output
from daf.text import format_bytes, format_table

if TYPE_CHECKING:
    from daf.exporter.fuse_optimizer import Optimizer
    from daf.exporter.pipeline import Export, Options
    from daf.exporter.schemes import ActivationMode

EPILOG = """\b
Examples:
  daf-export cnn_digits -o digits.pte
  daf-export resnet18 --set width=16 --batch-size 8 --optimizer sgd --check -o r.pte
  daf-export resnet18 --batch-size 32 --activations daf --calibrate 1 --budget 64MB -o r.pte
  daf-export resnet18 --batch-size 32 --activations division --hfc-bits 4 -o d.pte
  daf-export mobilenet_v2 --set pretrained=true --update sparse --update-ratio 0.02 -o sparse.pte
  daf-export resnet18 --batch-size 64 --suggest --device-memory 512MB
  daf-export my_model.py --optimizer adamw --lr 3e-4 --weight-decay 0.01 -o mine.pte
  daf-export roberta_lora --set layers=2 --optimizer none --dump graphs -o lora.pte
"""


@click.command(epilog=EPILOG)
@click.version_option(package_name="daf-mobile")
@click.argument("model")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The program to write, OUT.pte.  [required]")
@settings_option
@click.option("--batch-size", type=click.IntRange(min=1), help="Short for --set batch_size=N.")
@click.option("--dynamic-batch", is_flag=True, help="Also run batches smaller than the exported one.")
@click.option("--optimizer", type=click.Choice(["sgd", "adamw", "none"]), default="sgd", show_default=True)
@click.option("--lr", type=click.FloatRange(min=0), help="Learning rate; a run can set another. [0.01; adamw 0.001]")
@click.option("--momentum", type=click.FloatRange(0, 1, max_open=True), help="For sgd. [0.9]")
@click.option("--nesterov", is_flag=True, help="Nesterov momentum, for sgd.")
@click.option("--weight-decay", type=click.FloatRange(min=0), help="[0; adamw 0.01]")
@click.option(
    "--activations",
    type=click.Choice(["fp32", "daf", "division"]),
    default="fp32",
    show_default=True,
    help="What backward needs later: as it is, or as a few bits in the activation store; by DIVISION, these beside "
    "averages of blocks.",
)
@click.option(
    "--bits",
    type=BITS,
    default="auto",
    show_default=True,
    help="Of stored activations, 1 to 8. auto: 2 on average, 3 where depthwise convolutions train or with "
    "attention, 4 with more than 16 layers of it.",
)
@click.option("--lfc-block", type=click.IntRange(2, 64), help="Height and width of division's blocks. [8]")
@click.option(
    "--hfc-bits",
    type=click.IntRange(1, 8),
    help="Of what division's averages leave of an element. [2; in sequences 4]",
)
@click.option(
    "--calibrate",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    metavar="BATCHES",
    help="Measure how much each stored activation matters, two steps for each, and share the bits accordingly.",
)
@click.option(
    "--importance",
    type=click.Choice(IMPORTANCES),
    help="By what stored activations share their bits: the same for every element, as --calibrate measured, or by the "
    "gradients while training.  [gradient; calibrated with --calibrate; uniform with --bits or division]",
)
@update_options
@click.option("--budget", type=SIZE, help="For arena, pool and workspace together, as in 24MB.")
@click.option("--check", "check_step", is_flag=True, help="Run one step and compare loss and gradients with PyTorch.")
@click.option("--suggest", is_flag=True, help="Write nothing; say which ways to train fit --device-memory.")
@click.option("--device-memory", type=SIZE, help="With --suggest: what the device has for it, as in 512MB.")
@click.option("--dump", type=click.Path(path_type=Path, file_okay=False), help="Write the graph after each phase.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def export(
    model: str,
    output: Path | None,
    settings: dict[str, str],
    batch_size: int | None,
    dynamic_batch: bool,
    optimizer: str,
    lr: float | None,
    momentum: float | None,
    nesterov: bool,
    weight_decay: float | None,
    activations: ActivationMode,
    bits: int | None,
    lfc_block: int | None,
    hfc_bits: int | None,
    calibrate: int,
    importance: str | None,
    update: tuple[str, int],
    update_ratio: float | None,
    update_layers: int | tuple[str, ...] | str | None,
    rotate_every: int | None,
    select: str | None,
    budget: int | None,
    check_step: bool,
    suggest: bool,
    device_memory: int | None,
    dump: Path | None,
    quiet: bool,
) -> int:
    """Lower MODEL (a model.py or a zoo name) to a program that trains on a phone.

    MODEL defines model(**settings), batch(**settings) and loss(output, target). Beside OUT.pte, a manifest
    OUT.daf.json and the example batch OUT.example.safetensors are written.
    """
    if suggest != (device_memory is not None):
        raise click.UsageError("--suggest and --device-memory SIZE belong together")
    if suggest:
        output = Path("suggested.pte")  # never written
    if output is None:
        raise click.MissingParameter(param_hint="'-o' / '--output'", param_type="option")
    if output.suffix != ".pte":
        raise click.BadParameter(f"{output} does not end in .pte", param_hint="--output")
    if batch_size is not None:
        settings["batch_size"] = str(batch_size)
    if activations == "fp32" and bits is not None:
        raise click.BadParameter("fp32 activations have no bits to choose; add --activations daf", param_hint="--bits")
    if activations == "fp32" and calibrate:
        raise click.BadParameter("fp32 activations are not stored; add --activations daf", param_hint="--calibrate")
    if activations == "fp32" and importance is not None:
        raise click.BadParameter("fp32 activations are not stored; add --activations daf", param_hint="--importance")
    if activations == "division" and bits is not None:
        raise click.BadParameter("division has --hfc-bits instead", param_hint="--bits")
    for option, value in {"--lfc-block": lfc_block, "--hfc-bits": hfc_bits}.items():
        if activations != "division" and value is not None:
            raise click.BadParameter("only division has it; add --activations division", param_hint=option)
    if importance == "calibrated" and not calibrate:
        raise click.BadParameter("nothing is calibrated; add --calibrate 4", param_hint="--importance")
    if activations != "fp32" and dynamic_batch:
        raise click.BadParameter(
            "stored activations have a fixed size; leave --dynamic-batch out", param_hint="--activations"
        )
    chosen_update = update_settings(
        update[0], optimizer, ratio=update_ratio, layers=update_layers, rotate_every=rotate_every, select=select
    )
    optimizer_settings = _optimizer_settings(optimizer, lr, momentum, nesterov, weight_decay)
    if not suggest:
        check_output(output)
    if dump is not None:
        _make_folder(dump)

    from daf.exporter.load import load_model_file

    file = load_model_file(model, settings)  # the user's own mistakes first: torch's exporter takes seconds to import

    with silenced():
        from daf.exporter.division import LFC_BLOCK, Division
        from daf.exporter.pipeline import N_PHASES, Options, export_program
        from daf.exporter.plan_update import Update

    progress = _Progress(N_PHASES, quiet)
    options = Options(
        file=file,
        output=output,
        optimizer=_optimizer(optimizer, optimizer_settings),
        activations=activations,
        bits=bits,
        division=Division(lfc_block or LFC_BLOCK, hfc_bits),
        budget_bytes=budget,
        importance=importance or _default_importance(activations, bits, calibrate),
        update=Update(update[0], update[1], **chosen_update),  # type: ignore[arg-type]
        dynamic_batch=dynamic_batch,
        dump=dump,
    )
    if device_memory is not None:
        words = [model, *(word for item in settings.items() for word in ("--set", "=".join(item)))]
        if optimizer != "sgd":
            words += ["--optimizer", optimizer]
        for option, number in (("--lr", lr), ("--momentum", momentum), ("--weight-decay", weight_decay)):
            words += [] if number is None else [option, f"{number:g}"]
        _suggest(options, words + (["--nesterov"] if nesterov else []), device_memory, quiet)
        return Exit.OK
    try:
        exported = export_program(options, progress.phase)
    finally:
        progress.done()  # an error begins a line of its own
    if calibrate:
        _calibrate(exported, calibrate, quiet)
    if not quiet:
        click.echo(summary(exported))
    if exported.update.norms_without_statistics:
        click.echo(
            f"warning: {exported.update.norms_without_statistics} batch normalisations have no statistics yet, and "
            f"--update {options.update.name} does not gather them; start from trained weights",
            err=True,
        )
    return _check(exported) if check_step else Exit.OK


def _suggest(options: Options, given: list[str], device_memory: int, quiet: bool) -> None:
    from daf.exporter.suggest import COMBINATIONS, suggest

    progress = _Progress(len(COMBINATIONS), quiet, max(len(str(combination)) for combination in COMBINATIONS))
    try:
        text = suggest(options, given, device_memory, progress.phase)
    finally:
        progress.done()
    click.echo(text if quiet else f"\n{text}")


class _Progress:
    """One line per phase with its duration."""

    def __init__(self, n_phases: int, quiet: bool, width: int = 24) -> None:
        self._n_phases, self._quiet, self._width = n_phases, quiet, width
        self._started: float | None = None

    def phase(self, number: int, name: str) -> None:
        self.done()
        if not self._quiet:
            digits = len(str(self._n_phases))
            click.echo(f"[{number:{digits}}/{self._n_phases}] {name:<{self._width}}", nl=False)
        self._started = time.monotonic()

    def done(self) -> None:
        if self._started is not None and not self._quiet:
            click.echo(f"{time.monotonic() - self._started:6.1f} s")


def _make_folder(folder: Path) -> None:
    from daf.files import output_error

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(folder, error) from error


def _optimizer_settings(
    name: str, lr: float | None, momentum: float | None, nesterov: bool, weight_decay: float | None
) -> dict[str, Any]:
    given: dict[str, Any] = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov or None}
    given = {option: value for option, value in given.items() if value is not None}
    taken = {"sgd": {"lr", "momentum", "weight_decay", "nesterov"}, "adamw": {"lr", "weight_decay"}, "none": set()}
    for option in given:
        if option not in taken[name]:
            flag = f"--{option.replace('_', '-')}"
            raise click.BadParameter(f"--optimizer {name} has no such setting", param_hint=flag)
    if nesterov and momentum == 0:
        raise click.BadParameter("Nesterov momentum needs a momentum above 0", param_hint="--nesterov")
    return given


def _optimizer(name: str, settings: dict[str, Any]) -> Optimizer:
    from daf.exporter.fuse_optimizer import AdamW, NoOptimizer, Sgd

    return {"sgd": Sgd, "adamw": AdamW, "none": NoOptimizer}[name](**settings)  # type: ignore[no-any-return]


def summary(exported: Export) -> str:
    assert exported.written is not None
    manifest = exported.written.manifest
    memory, parameters = manifest["memory"], manifest["parameters"]
    kept = manifest["activations"]["kept"]
    rows = [
        ("parameters", f"{parameters['count']:,}"),
        ("trainable parameters", f"{parameters['trained']:,}"),
        ("activations kept", f"{len(kept)} tensors, {format_bytes(memory['activations'])}"),
        *_schemes(manifest),
        *_attention(exported),
        *_update(manifest),
        ("planned arena", format_bytes(memory["arena"])),
        ("  of it gradients, at most", format_bytes(memory["gradients"])),
        ("predicted peak", format_bytes(memory["peak"])),
        *(
            (f"  {part}", format_bytes(memory[part]))
            for part in ("weights", "constants", "optimizer", "arena", "pool", "workspace", "batch", "runtime")
        ),
        ("program", f"{exported.written.program} ({format_bytes(manifest['program']['size_bytes'])})"),
    ]
    return format_table(rows)


def _schemes(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """What each way to keep activations contributes; nothing to say when all are kept as they are."""
    totals: dict[str, list[int]] = {}
    for kept in manifest["activations"]["kept"]:
        total = totals.setdefault(kept["scheme"], [0, 0, 0])
        for i, value in enumerate((1, kept["raw_bytes"], kept["stored_bytes"])):
            total[i] += value
    if list(totals) in ([], ["keep"]):
        return []
    raw, stored = (sum(total[i] for total in totals.values()) for i in (1, 2))
    rows = [("  less than in float32", f"{raw / stored:.1f}x ({format_bytes(raw)})")]
    for scheme, (n, raw, stored) in sorted(totals.items(), key=lambda item: -item[1][1]):
        rows.append((f"  {scheme}", f"{n} tensors, {format_bytes(raw)} in {format_bytes(stored)}"))
    return rows


def _update(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """What the update leaves out of dense training; nothing to say where it is that."""
    update, memory = manifest["update"], manifest["memory"]
    if "dense" not in update:
        return []
    rows = [("update", update["mode"])]
    if layers := update.get("layers"):
        rotation = f"chosen anew every {update['rotate_every']} steps" if update["rotate_every"] else "chosen once"
        n_channels, n_chosen = (sum(layer[key] for layer in layers) for key in ("channels", "chosen"))
        rows += [
            ("  layers", f"{len(layers)}, from {layers[0]['name']} on"),
            ("  channels", f"{n_chosen} of {n_channels} by {update['select']}, {rotation}"),
        ]
    for part in ("activations", "gradients", "optimizer"):
        dense, kept = update["dense"][part], memory[part]
        if dense:
            rows.append((f"  {part}", f"{format_bytes(kept)}, dense {format_bytes(dense)}: {_less(kept, dense)}"))
    return rows


def _less(kept: int, dense: int) -> str:
    return f"{100 * (1 - kept / dense):.1f} % less" if kept <= dense else f"{kept / dense:.1f}x"


def _attention(exported: Export) -> list[tuple[str, str]]:
    """Whether attention probabilities are stored or recomputed, and why."""
    found = exported.attention
    if not found or exported.written is None:
        return []
    bits = {entry["name"]: entry["bits"] for entry in exported.written.manifest["store"]["entries"]}
    pays_from = min(each.recomputing_pays_from(bits[each.probabilities.activation.name]) for each in found)
    reason = f"recomputing needs exact queries and keys, which is less from {pays_from} tokens on"
    return [("  attention probabilities", f"{len(found)} x {found[0].n_tokens} tokens, stored: {reason}")]


def _default_importance(activations: str, bits: int | None, calibrate: int) -> str:
    """Measuring gradients while training costs next to nothing. Who states the bits of every activation means them."""
    if calibrate:
        return "calibrated"
    return "gradient" if activations == "daf" and bits is None else "uniform"


def _calibrate(exported: Export, n_batches: int, quiet: bool) -> None:
    from daf.exporter.calibrate import calibrate
    from daf.exporter.write import rewrite_manifest

    with click.progressbar(length=1000, label="calibrate", hidden=quiet) as bar:
        exported.sensitivities = calibrate(
            exported, n_batches, lambda done, total: bar.update(1000 * done // total - bar.pos)
        )
        bar.update(1000 - bar.pos)
    rewrite_manifest(exported)


def _check(exported: Export) -> int:
    from daf.exporter.check import LIMIT, N_ROUNDINGS, check

    result = check(exported)
    name, error = result.worst
    click.echo(f"check: loss {result.loss:.6f}, eager {result.eager_loss:.6f} (relative error {result.loss_error:.1e})")
    if result.noise is None:
        click.echo(f"check: largest relative gradient error {error:.1e}, in {name}")
    else:
        told = "are right" if result.passed else f"are off by {error:.1e} in {name}, more than their spread explains,"
        click.echo(
            f"check: gradients {told} on average of {N_ROUNDINGS} roundings; one step's differ by {result.noise:.0%}"
        )
    if result.eager_error > LIMIT:
        click.echo(f"check: eager's own float32 gradients differ from float64 by {result.eager_error:.1e}")
    if not result.passed:
        raise UserError(f"the program's step differs from eager by more than {result.limit:.1g}", Exit.CHECK_FAILED)
    return Exit.OK


def main() -> None:
    run_command(export)
