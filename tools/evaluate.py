"""`daf eval`: runs a program's `predict` over a data file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daf.errors import Exit, UserError
from daf.files import atomic_write, check_output
from daf.manifest import Manifest
from daf.tools.inputs import check_data, check_weights, load_program

if TYPE_CHECKING:
    import numpy as np

    Arrays = dict[str, np.ndarray[Any, Any]]

FILE = click.Path(path_type=Path)


@click.command("eval", short_help="Predict on a data file; print the accuracy.")
@click.argument("program", type=FILE)
@click.option("--data", type=FILE, required=True, help="Samples, with or without the target.")
@click.option("--weights", type=FILE, help="Trained weights (daf run --save); without it, those PROGRAM starts from.")
@click.option("--output", type=FILE, help="Write the predictions here, as safetensors.")
def evaluate(program: Path, data: Path, weights: Path | None, output: Path | None) -> None:
    """Run PROGRAM's predict method over a data file.

    Prints the accuracy if the data have class labels as target and the model one score per class.

    \b
    Examples:
      daf eval digits.pte --data test.safetensors --weights w.safetensors
      daf eval digits.pte --data test.safetensors --output predictions.safetensors
    """
    manifest = load_program(program)
    targets = [t.name for t in manifest.train_step.inputs[len(manifest.predict.inputs) :]]
    check_data(data, manifest.predict.inputs, min_samples=1, extra=targets)
    if weights is not None:
        check_weights(weights, manifest)
    else:
        click.echo("no --weights: using those the program was exported with")
    if output is not None:
        check_output(output)

    samples = load_arrays(data, Exit.DATA)
    outputs = predict(program, manifest, samples, load_arrays(weights, Exit.WEIGHTS) if weights else {})
    click.echo(f"samples   {len(outputs['output0'])}")
    correct = count_correct(outputs["output0"], samples.get(targets[0])) if targets else None
    if correct is not None:
        click.echo(f"accuracy  {100 * correct / len(outputs['output0']):.2f} %")
    if output is not None:
        from safetensors.numpy import save

        with atomic_write(output) as file:
            file.write(save(outputs))
        click.echo(f"wrote {output}")


def load_arrays(path: Path, exit_code: Exit) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: Arrays = load_file(path)
        return arrays
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read {path}: {error}", exit_code) from error


def predict(program: Path, manifest: Manifest, samples: Arrays, weights: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
    """The outputs of `predict` for all samples, by name."""
    import numpy as np

    from daf.native import Session

    session = Session(str(program), str(manifest.path))
    if weights:
        names = [tensor.name for tensor in manifest.state if tensor.is_weight]
        session.set_state({name: weights[name] for name in names})
    inputs = [np.ascontiguousarray(samples[tensor.name]) for tensor in manifest.predict.inputs]
    n_samples, batch_size = len(inputs[0]), manifest.batch_size
    batches = []
    for start in range(0, n_samples, batch_size):
        rows = np.arange(start, start + batch_size)
        # A program of fixed batch size gets its last batch filled up with the last sample.
        rows = rows[rows < n_samples] if manifest.dynamic_batch else rows.clip(max=n_samples - 1)
        batches.append(session.predict([array[rows] for array in inputs]))
    names = [tensor.name for tensor in manifest.predict.outputs]
    return {name: np.concatenate([b[i] for b in batches])[:n_samples] for i, name in enumerate(names)}


def count_correct(scores: np.ndarray[Any, Any], target: np.ndarray[Any, Any] | None) -> int | None:
    """How many samples have their highest score at the target class; None if these are not classes."""
    if target is None or target.dtype.kind != "i" or target.ndim != 1 or scores.ndim != 2:
        return None
    return int((scores.argmax(axis=1) == target).sum())
