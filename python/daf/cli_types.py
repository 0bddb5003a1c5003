"""Values that several commands take: sizes in bytes, bits, settings of a model."""

from __future__ import annotations

import re

import click

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
}


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if match is None:
            self.fail(f"{value!r} is not a size; write it as in 24MB, 512MiB or 1.5GB", param, ctx)
        unit = match[2].lower()
        if unit not in _UNITS:
            self.fail(f"{match[2]!r} is not a unit; use B, kB, MB, GB, KiB, MiB or GiB", param, ctx)
        size = int(float(match[1]) * _UNITS[unit])
        if not 0 < size < 2**62:
            self.fail(f"{value!r} is not a size that a device can have", param, ctx)
        return size


class _Bits(click.ParamType[int | None]):
    name = "auto|1-8"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        try:
            bits = int(value)
        except ValueError:
            self.fail(f"{value!r} is neither auto nor a number of bits", param, ctx)
        if not 1 <= bits <= 8:
            self.fail(f"{bits} bits: an activation is stored with 1 to 8", param, ctx)
        return bits


IMPORTANCES = ("uniform", "calibrated", "gradient")
SIZE = _Size()
BITS = _Bits()


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for value in values:
        name, separator, text = value.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{value!r} is not of the form name=value, as in --set width=16")
        settings[name] = text
    return settings


settings_option = click.option(
    "--set", "settings", multiple=True, callback=_settings, metavar="NAME=VALUE", help="A model setting."
)
