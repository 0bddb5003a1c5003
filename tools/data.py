"""`daf data`: writes the data set of a model file in the form that `daf run` takes."""

from __future__ import annotations

from pathlib import Path

import click

from daf.errors import Exit, UserError
from daf.files import atomic_write, check_output

FILE = click.Path(path_type=Path)


@click.command(short_help="Write a model's data set as safetensors.")
@click.argument("model")
@click.option("--split", type=click.Choice(["train", "test"]), default="train", show_default=True)
@click.option("-o", "--output", type=FILE, required=True, help="The safetensors file to write.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the model file; repeatable.")
def data(model: str, split: str, output: Path, settings: tuple[str, ...]) -> None:
    """Write the data set of MODEL, a model file or the name of a zoo model.

    The model file's function dataset(split, **settings) returns a dict of tensors, one per input of train_step,
    whose first axis is the samples.

    \b
    Examples:
      daf data cnn_digits -o train.safetensors
      daf data ./model.py --split test --set resolution=96 -o test.safetensors
    """
    check_output(output)
    values = parse_settings(settings)
    from safetensors.torch import save

    from daf.exporter.load import load_model_file

    tensors = load_model_file(model, values).dataset(split)
    with atomic_write(output) as file:
        file.write(save(tensors))
    for name, tensor in tensors.items():
        click.echo(f"{name}  {str(tensor.dtype).removeprefix('torch.')}  {list(tensor.shape)}")
    click.echo(f"wrote {output}")


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise UserError(f"cannot use --set {setting}: write it as NAME=VALUE", Exit.USAGE)
        values[name] = value
    return values
