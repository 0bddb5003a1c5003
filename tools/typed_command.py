"""For demonstrations: runs a command of ours as if it had been typed."""

from __future__ import annotations

import shlex

import click

from daf.errors import Exit


def type_command(name: str, command: click.Command, *arguments: object) -> None:
    texts = [str(argument) for argument in arguments]
    click.secho(f"\n$ {name} {shlex.join(texts)}", bold=True)
    if command.main(texts, standalone_mode=False) == Exit.INTERRUPTED:
        raise click.Abort
