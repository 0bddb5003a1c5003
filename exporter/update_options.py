"""The options of `daf-export` that say what trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

# Setting of plan_update.Update -> its option. All are for --update sparse.
_FLAGS = {
    "ratio": "--update-ratio",
    "layers": "--update-layers",
    "rotate_every": "--rotate-every",
    "select": "--select",
}


class _Mode(click.ParamType[tuple[str, int]]):
    name = "dense|bias|last:N|sparse"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if value in ("dense", "bias", "sparse"):
            return value, 0
        mode, _, number = str(value).partition(":")
        if mode != "last" or not number.isdecimal() or int(number) == 0:
            self.fail(f"{value!r} is none of dense, bias, sparse and last:N, as in last:3", param, ctx)
        return "last", int(number)


class _Ratio(click.ParamType[float]):
    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            ratio = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not 0 < ratio <= 1:
            self.fail(f"{value} is not a part of the weights; give a number above 0 and up to 1", param, ctx)
        return ratio


class _Layers(click.ParamType[int | tuple[str, ...] | str]):
    name = "auto|N|name,name"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | tuple[str, ...] | str:
        if value == "auto":
            return "auto"
        names = tuple(name.strip() for name in str(value).split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name", param, ctx)
        if len(names) > 1 or not names[0].lstrip("-").isdecimal():
            return names
        if int(names[0]) < 1:
            self.fail(f"{value} layers: at least one must train", param, ctx)
        return int(names[0])


def update_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--update",
            type=_Mode(),
            default="dense",
            show_default=True,
            help="What trains: all, every bias, the last N layers, or some channels of the last layers.",
        ),
        click.option(
            "--update-ratio",
            type=_Ratio(),
            help="With sparse: the part of the layers' weights that trains at a time.  [0.02]",
        ),
        click.option(
            "--update-layers",
            type=_Layers(),
            help="With sparse: how many of the last layers, or their names.  [auto: as many as the ratio allows]",
        ),
        click.option(
            "--rotate-every",
            type=click.IntRange(0, 10**12),
            metavar="STEPS",
            help="With sparse: how long the same channels train; 0: all the time.  [10]",
        ),
        click.option(
            "--select",
            type=click.Choice(["norm", "gradient", "random"]),
            help="With sparse: by what channels are drawn, the norms of their weights or of their gradients.  [norm]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def update_settings(mode: str, optimizer: str, **given: Any) -> dict[str, Any]:
    """Settings of plan_update.Update, for what was given; refuses what does not go together."""
    given = {setting: value for setting, value in given.items() if value is not None}
    if mode != "sparse":
        for setting in given:
            raise click.BadParameter("it is for --update sparse; add that, or leave it out", param_hint=_FLAGS[setting])
    elif optimizer == "none":
        raise click.BadParameter(
            "sparse chooses channels for the program's own optimizer; give --optimizer sgd or adamw",
            param_hint="--update",
        )
    if given.get("select") == "gradient" and given.get("rotate_every") == 0:
        raise click.BadParameter(
            "before the first step there are no gradients to choose by, and --rotate-every 0 chooses only then; "
            "leave one of them out",
            param_hint="--select",
        )
    return {setting: value for setting, value in given.items() if value != "auto"}
