"""`daf data`: writes the data set of a model file in the form that `daf run` takes."""

from __future__ import annotations

from pathlib import Path

import click

from daf.cli_types import settings_option
from daf.files import atomic_write, check_output

FILE = click.Path(path_type=Path)


@click.command(short_help="Write a model's data set as safetensors.")
@click.argument("model")
@click.option("--split", type=click.Choice(["train", "test"]), default="train", show_default=True)
@click.option("-o", "--output", type=FILE, required=True, help="The safetensors file to write.")
@settings_option
def data(model: str, split: str, output: Path, settings: dict[str, str]) -> None:
    """Write the data set of MODEL, a model file or the name of a zoo model.

    The model file's function dataset(split, **settings) returns a dict of tensors, one per input of train_step,
    whose first axis is the samples.

    \b
    Examples:
      daf data cnn_digits -o train.safetensors
      daf data ./model.py --split test --set resolution=96 -o test.safetensors
    """
    check_output(output)
    from safetensors.torch import save

    from daf.exporter.load import load_model_file

    tensors = load_model_file(model, settings).dataset(split)
    with atomic_write(output) as file:
        file.write(save(tensors))
    for name, tensor in tensors.items():
        click.echo(f"{name}  {str(tensor.dtype).removeprefix('torch.')}  {list(tensor.shape)}")
    click.echo(f"wrote {output}")
