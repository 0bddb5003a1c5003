"""Watches over a run on a device: starts the runner, follows what it says, brings home what it wrote."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import click

from daf.errors import Exit, UserError
from daf.files import output_error
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.link import ConnectionLost, Stream
from daf.tools.adb.oom import OomRecord, read_oom_record
from daf.tools.adb.runner import RUNNER
from daf.tools.adb.transfer import ATTEMPTS, REOPEN_S, pull_file, pull_files
from daf.tools.local_device import Outcome
from daf.tools.memory_advice import RunMemory, explain_kill
from daf.tools.progress import Progress

_TICK_S = 0.25  # how soon Ctrl-C is noticed
_SILENCE_S = 10.0  # a runner says every second that it is alive
_STOP_S = 60.0  # for the last step and the checkpoint, when the connection is gone
_TAIL_LINES = 20


@dataclass
class RemoteFiles:
    """Paths on the device."""

    run: str
    pushed: list[str] = field(default_factory=list)  # by this run: removed after it
    runner_was_pushed: bool = False
    running_pid: int | None = None
    left_behind: bool = False  # the device went away with results on it

    @property
    def request(self) -> str:
        return f"{self.run}/request.json"

    @property
    def trace(self) -> str:
        return f"{self.run}/run.trace"

    @property
    def save_folder(self) -> str:
        return f"{self.run}/save"

    @property
    def resume_folder(self) -> str:
        return f"{self.run}/resume"


class _RunnerSilent(ConnectionLost):
    """The device may be there, but the runner hangs."""


class RemoteWatch:
    """Of one run, however it ends."""

    def __init__(self, device: AdbDevice, files: RemoteFiles, request: Mapping[str, Any], progress: Progress) -> None:
        self._device = device
        self._files = files
        self._request = request
        self._progress = progress
        self._pid: int | None = None
        self._exit: dict[str, Any] | None = None
        self._said: list[str] = []  # that is no JSON: complaints of the device's loader or shell
        self._last_step = 0
        self._last_t_us = 0
        self._memory = RunMemory()
        self._interrupts = 0
        self._sent_stops = 0

    def run(self, threads: int | None, on_interrupt: Callable[[], None]) -> Outcome:
        environment = f"env DAF_THREADS={threads} " if threads else ""
        script = f"exec {environment}{RUNNER} {self._files.request}"
        with self._catch_interrupts(on_interrupt):
            try:
                with open_trace(self._request["trace"]) as trace, self._progress:
                    self._follow(self._device.start(script), trace)
                self._check_connection()
                lost = None
            except ConnectionLost as error:
                lost = error
                self._reopen(error)
            self._end_runner(0 if isinstance(lost, _RunnerSilent) else _STOP_S)
            self._bring_home()
        if lost is not None:
            raise UserError(
                f"the connection to {self._device} broke after step {self._last_step} ({lost}); the run was stopped; "
                f"{self._kept()}",
                Exit.DEVICE,
            )
        if self._exit is None:
            self._fail_killed()
        return Outcome(int(self._exit["code"]), str(self._exit.get("error") or ""), self._interrupts > 0)

    def _check_connection(self) -> None:
        """An adb server ends a stream in good order when the device is gone: a runner that lives shows it."""
        alive = self._exit is None and self._device.run("test", "-d", f"/proc/{self._pid}").code == 0
        if alive and self._pid is not None:
            raise ConnectionLost("the adb server cut it")

    def _follow(self, stream: Stream, trace: BinaryIO | None) -> None:
        rest = b""
        heard_s = time.monotonic()
        try:
            while True:
                data = stream.read(_TICK_S)
                self._pass_on_interrupts()
                if data:
                    heard_s = time.monotonic()
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self._take_line(line, trace)
                elif data is not None:
                    return
                elif time.monotonic() - heard_s > _SILENCE_S:
                    raise _RunnerSilent(f"the runner gave no sign of life for {_SILENCE_S:.0f} s")
        finally:
            with suppress(ConnectionLost):
                stream.close()

    def _take_line(self, line: bytes, trace: BinaryIO | None) -> None:
        try:
            row = json.loads(line)
            kind = row["type"]
        except (ValueError, TypeError, KeyError):
            self._said = [*self._said, line.decode(errors="replace").strip()][-_TAIL_LINES:]
            return
        if kind == "hello":
            self._files.running_pid = self._pid = int(row["pid"])
        elif kind == "exit":
            self._exit = row
            self._files.running_pid = None
        elif kind != "alive":
            if trace is not None:
                with suppress(OSError):  # pulling the trace will say so
                    trace.write(line + b"\n")
            if kind == "step":
                self._last_step = row["step"]
            self._last_t_us = row.get("t_us", 0)
            self._memory.add(row)
            self._progress.add(row)

    # ---- stopping ------------------------------------------------------------------------------------------------

    @contextmanager
    def _catch_interrupts(self, on_interrupt: Callable[[], None]) -> Iterator[None]:
        """Ctrl-C is counted here and passed on between two messages: the connection can do one thing at a time."""

        def count(_number: int, _frame: object) -> None:
            self._interrupts += 1
            if self._interrupts == 1:
                on_interrupt()
            elif self._interrupts > 3:  # whatever we are waiting for
                raise KeyboardInterrupt

        old_handler = signal.signal(signal.SIGINT, count)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, old_handler)

    def _pass_on_interrupts(self) -> None:
        if self._pid is not None and self._sent_stops < min(self._interrupts, 2):
            self._sent_stops += 1
            self._device.run("kill", "-INT" if self._sent_stops == 1 else "-KILL", str(self._pid))

    def _reopen(self, error: ConnectionLost) -> None:
        click.echo(f"\nthe connection to {self._device} broke ({error}); connecting again", err=True)
        try:
            self._device.reopen(REOPEN_S)
        except ConnectionLost as again:
            self._files.left_behind = True
            trace = f"{self._request['trace']} holds the trace up to then; " if self._request["trace"] else ""
            raise UserError(
                f"the connection to {self._device} broke after step {self._last_step} and could not be restored "
                f"({again}); {trace}the run stops by itself, and its files are in {self._files.run} on the device: "
                "get them with daf pull",
                Exit.DEVICE,
            ) from again

    def _end_runner(self, patience_s: float) -> None:
        """A runner whose host is gone stops after its step; it must be gone before its files are read."""
        if self._pid is None or self._exit is not None:
            return
        script = (
            f"i=0; while [ -d /proc/{self._pid} ] && [ $i -lt {int(patience_s * 5)} ]; do sleep 0.2; i=$((i+1)); done"
        )
        self._device.run_script(f"{script}\nkill -KILL {self._pid} 2>/dev/null", timeout_s=patience_s + 30)
        self._files.running_pid = None

    # ---- what it leaves ------------------------------------------------------------------------------------------

    def _bring_home(self) -> None:
        """Results that cannot be brought home stay where they are."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._pull_results()
                return
            except UserError as error:
                self._files.left_behind = True
                raise UserError(
                    f"{error}; the results are in {self._files.run} on {self._device}", error.exit_code
                ) from error
            except ConnectionLost as error:
                if attempt == ATTEMPTS:
                    raise
                self._reopen(error)

    def _pull_results(self) -> None:
        if self._request["trace"] and self._device.stat(self._files.trace):
            pull_file(self._device, self._files.trace, Path(self._request["trace"]))
        if not self._request["save"]:
            return
        target = Path(self._request["save"])
        found = {entry.name for entry in self._device.list(self._files.save_folder)}
        if target.name not in found:
            return
        # The optimizer state first, then the weights that refer to it: as the session itself writes them.
        optimizer = sorted(name for name in found if name.endswith(".safetensors") and ".optim-" in name)
        names = [*optimizer, target.name]
        pull_files(self._device, {f"{self._files.save_folder}/{name}": target.with_name(name) for name in names})
        _remove_older(target, keep=set(optimizer))

    def _note_kill(self, record: OomRecord) -> None:
        """In our copy of the trace: the one on the device ends where the run did."""
        if not self._request["trace"]:
            return
        row = {"type": "event", "t_us": self._last_t_us, "step": self._last_step, "event": "killed_for_memory"}
        sizes = {"bytes": record.held_bytes, "own_bytes": record.own_bytes, "file_bytes": record.file_bytes}
        with suppress(OSError), Path(self._request["trace"]).open("ab") as trace:
            trace.write(json.dumps({**row, **sizes, "killer": record.killer}).encode() + b"\n")

    def _kept(self) -> str:
        save, trace = self._request["save"], self._request["trace"]
        parts = []
        if save and Path(save).exists():
            parts.append(f"continue with --resume {save}")
        elif save:
            parts.append("no checkpoint was written yet")
        else:
            parts.append("nothing was kept, because --save was not given")
        if trace:
            parts.append(f"trace {trace}")
        return "; ".join(parts)

    def _fail_killed(self) -> NoReturn:
        if self._pid is None:
            said = " ".join(self._said) or "it ended without a word"
            raise UserError(f"cannot start the runner on {self._device}: {said}; try `daf install` again", Exit.DEVICE)
        if self._sent_stops == 2:
            raise UserError(f"killed at step {self._last_step}; {self._kept()}", Exit.INTERRUPTED)
        said = f" ({' '.join(self._said)})" if self._said else ""
        with suppress(ConnectionLost):
            if (record := read_oom_record(self._device, self._pid)) is not None:
                self._note_kill(record)
                why = explain_kill(record, self._memory, self._last_step)
                raise UserError(f"the run on {self._device} has failed: {why}; {self._kept()}", Exit.DEVICE)
        raise UserError(
            f"the runner on {self._device} was killed after step {self._last_step}{said}; most likely memory ran out: "
            f"use a smaller batch; {self._kept()}",
            Exit.DEVICE,
        )


@contextmanager
def open_trace(path: str | None) -> Iterator[BinaryIO | None]:
    """What has been streamed stays even if the device does not come back; else the pulled file takes its place."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise output_error(Path(path), error) from error
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        yield file


def _remove_older(weights: Path, keep: set[str]) -> None:
    """Optimizer states that an earlier checkpoint of this name referred to."""
    stem = re.escape(weights.name.removesuffix(".safetensors"))
    for path in weights.parent.iterdir():
        if re.fullmatch(rf"{stem}\.optim-[\d-]+\.safetensors", path.name) and path.name not in keep:
            path.unlink(missing_ok=True)
