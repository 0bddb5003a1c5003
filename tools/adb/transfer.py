"""Files to and from a device: what is shown of it, and what is there already."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from daf.errors import Exit, UserError
from daf.files import atomic_write
from daf.text import format_bytes
from daf.tools.adb.bundle import hash_file
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.facts import FOLDER
from daf.tools.adb.link import ConnectionLost

FILES = f"{FOLDER}/files"  # named by the hash of their content
_PART = f".{secrets.token_hex(4)}.part"  # of this process
ATTEMPTS = 3
REOPEN_S = 20.0
_SHOWN_FROM_BYTES = 1_000_000
_REDRAW_S = 0.1


def push_file(device: AdbDevice, source: Path, path: str, mode: int = 0o644, label: str = "") -> None:
    """Under another name first: a file with its own name is complete. Tries again when the connection breaks."""
    temporary = path + _PART
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with (
                source.open("rb") as file,
                _bar("push", label or source.name, os.fstat(file.fileno()).st_size) as on_progress,
            ):
                device.push(file, temporary, mode, on_progress)
            break
        except OSError as error:
            raise UserError(f"cannot read {source}: {error.strerror or error}; check the file", Exit.DATA) from error
        except ConnectionLost as error:
            if attempt == ATTEMPTS:
                raise UserError(
                    f"cannot push {source} to {device}: the connection broke {ATTEMPTS} times ({error}); check the "
                    "cable or the network and call this again",
                    Exit.DEVICE,
                ) from error
            click.echo(f"the connection to {device} broke ({error}); trying again", err=True)
            device.reopen(REOPEN_S)
    _check(device, device.run("mv", "-f", "--", temporary, path).code, path)


def push_by_hash(
    device: AdbDevice, source: Path, suffix: str, label: str = "", folder: str = FILES
) -> tuple[str, bool]:
    """Where the file is on the device, and whether it was pushed now."""
    try:
        path = f"{folder}/{hash_file(source)}{suffix}"
        size_bytes = source.stat().st_size
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror or error}; check the file", Exit.DATA) from error
    found = device.stat(path)
    if found is not None and found.size_bytes == size_bytes & 0xFFFFFFFF:
        return path, False
    push_file(device, source, path, label=label)
    return path, True


def pull_file(device: AdbDevice, path: str, target: Path) -> None:
    """`target` is complete or as it was before."""
    pull_files(device, {path: target})


def pull_files(device: AdbDevice, targets: Mapping[str, Path]) -> None:
    """When all are here they get their names, in this order."""
    with ExitStack() as files:
        reverse = reversed(list(targets.items()))  # what is opened last is closed, and named, first
        for path, target, file in [(p, t, files.enter_context(atomic_write(t))) for p, t in reverse]:
            found = device.stat(path)
            with _bar("pull", target.name, found.size_bytes if found else 0) as on_progress:
                device.pull(path, file, on_progress)


def make_folders(device: AdbDevice, *folders: str) -> None:
    _check(device, device.run("mkdir", "-p", *folders).code, folders[0])


def remove_partial_files(device: AdbDevice, folder: str = FILES) -> None:
    """Of transfers that this process began and did not finish."""
    device.run_script(f"rm -f {folder}/*{_PART}")


def _check(device: AdbDevice, code: int, path: str) -> None:
    if code != 0:
        raise UserError(
            f"cannot write {path} on {device}: it is not allowed, or its storage is full; see `daf devices`",
            Exit.OUTPUT,
        )


@contextmanager
def _bar(verb: str, name: str, size_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar with the rate on a terminal; elsewhere, and for large files only, a line at the end."""
    start = time.monotonic()
    sent = 0

    def rate() -> str:
        return f"{format_bytes(sent / max(1e-9, time.monotonic() - start))}/s"

    if sys.stdout.isatty():
        drawn_s, drawn = 0.0, 0
        with click.progressbar(
            length=max(1, size_bytes), label=f"{verb} {name}", item_show_func=lambda text: text, show_pos=False
        ) as bar:

            def draw(n_bytes: int) -> None:
                nonlocal sent, drawn_s, drawn
                sent += n_bytes
                if time.monotonic() - drawn_s > _REDRAW_S or sent >= size_bytes:
                    bar.update(sent - drawn, f"{format_bytes(sent)}  {rate()}")
                    drawn_s, drawn = time.monotonic(), sent

            yield draw
        return

    def count(n_bytes: int) -> None:
        nonlocal sent
        sent += n_bytes

    yield count
    if size_bytes >= _SHOWN_FROM_BYTES:
        click.echo(f"{verb} {name}  {format_bytes(sent)}  {rate()}")
