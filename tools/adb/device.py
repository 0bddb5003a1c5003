"""A device: commands, files and long-running programs on it, over whichever link reaches it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import click

from daf.errors import Exit, UserError
from daf.tools.adb.link import PATIENCE_S, ConnectionLost, Link, ServiceRefused, Stream
from daf.tools.adb.sync import FileStat, Sync, TransferFailed
from daf.tools.adb.target import Target, find_target, open_link

_MARK = "daf-exit-code:"
_RETRY_S = 0.5


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    output: str
    code: int


class AdbDevice:
    def __init__(self, target: Target) -> None:
        self.target = target
        self._link: Link | None = None

    def __str__(self) -> str:
        return str(self.target)

    @property
    def is_open(self) -> bool:
        return self._link is not None

    def open(self) -> None:
        self._link = open_link(self.target, self._ask_for_trust)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def reopen(self, patience_s: float) -> None:
        """After a ConnectionLost: tries until the device is back."""
        deadline = time.monotonic() + patience_s
        while True:
            self.close()
            try:
                self.open()
                if self.run("true").code == 0:
                    return
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)

    def run(self, *words: str, timeout_s: float = PATIENCE_S) -> Done:
        """Runs a command; its words reach it as they are, whatever characters they have."""
        return self.run_script(shlex.join(words), timeout_s)

    def run_script(self, script: str, timeout_s: float = PATIENCE_S) -> Done:
        """`script` is for the device's shell: nothing that comes from outside may be in it."""
        stream = self.start(f"{script}\necho {_MARK}$?")
        try:
            output = bytearray()
            while data := stream.read(timeout_s):
                output += data
            if data is None:
                raise ConnectionLost(f"a command did not end within {timeout_s:.0f} s")
        finally:
            stream.close()
        text, mark, code = output.decode(errors="replace").rpartition(_MARK)
        if not mark or not code.strip().isdigit():
            raise ConnectionLost("a command was cut off")
        return Done(text.replace("\r\n", "\n"), int(code))

    def start(self, script: str) -> Stream:
        """A command whose output is the stream; its standard input ends when the stream is closed."""
        try:
            return self._connected().open(f"shell:{script}")
        except ServiceRefused as error:
            raise UserError(f"cannot run commands on {self}: it refuses ({error}); unlock it", Exit.DEVICE) from error

    def push(self, source: BinaryIO, path: str, mode: int, on_progress: Callable[[int], None] = lambda n: None) -> None:
        try:
            Sync(self._connected()).push(source, path, mode, on_progress)
        except TransferFailed as error:
            raise UserError(f"cannot write {path} on {self}: {_reason(str(error))}", Exit.OUTPUT) from error

    def pull(self, path: str, target: BinaryIO, on_progress: Callable[[int], None] = lambda n: None) -> None:
        try:
            Sync(self._connected()).pull(path, target, on_progress)
        except TransferFailed as error:
            raise UserError(f"cannot read {path} on {self}: {_reason(str(error))}", Exit.DEVICE) from error

    def stat(self, path: str) -> FileStat | None:
        return Sync(self._connected()).stat(path)

    def list(self, folder: str) -> list[FileStat]:
        return Sync(self._connected()).list(folder)

    def _connected(self) -> Link:
        if self._link is None:
            raise ConnectionLost("not connected")
        return self._link

    def _ask_for_trust(self) -> None:
        click.echo(f"{self} does not know this computer: unlock it and accept 'Allow USB debugging?'", err=True)


@contextmanager
def open_device(spec: str) -> Iterator[AdbDevice]:
    """The device that `spec` means, as --device takes it. A connection that breaks is a UserError."""
    device = AdbDevice(find_target(spec))
    try:
        device.open()
    except ConnectionLost as error:
        raise UserError(
            f"cannot connect to {device}: {error}; check the address, and that debugging is on", Exit.DEVICE
        ) from error
    try:
        yield device
    except ConnectionLost as error:
        raise UserError(
            f"the connection to {device} broke: {error}; check the cable or the network and call this again",
            Exit.DEVICE,
        ) from error
    finally:
        device.close()


def _reason(text: str) -> str:
    """The device's words and the next step."""
    steps = {
        "No space left": "free some storage on the device",
        "Disk quota": "free some storage on the device",
        "Permission denied": "choose a folder that the shell user may write to, such as /data/local/tmp",
        "Read-only file system": "choose a folder that the shell user may write to, such as /data/local/tmp",
        "No such file": "check the path with `daf devices` and `adb shell ls`",
        "Is a directory": "give a file name",
    }
    step = next((step for words, step in steps.items() if words in text), "check the path")
    return f"{text.strip()}; {step}"
