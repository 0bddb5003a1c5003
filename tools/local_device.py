"""Runs a training request on this machine, in a child process, and watches over it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

TraceRow = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `return_code` is the child's: negative if a signal killed it."""

    return_code: int
    error: str
    interrupted: bool


def run_local(
    request: Mapping[str, Any], on_row: Callable[[TraceRow], None], on_interrupt: Callable[[], None]
) -> Outcome:
    """Calls `on_row` for every trace row. One Ctrl-C lets the child finish its step and save; a second kills it."""
    with tempfile.TemporaryFile() as errors, _start(errors) as child, forward_interrupts(child, on_interrupt) as seen:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            try:
                child.stdin.write(json.dumps(request).encode())
                child.stdin.close()
            except BrokenPipeError:
                pass  # the child died at once; its return code and message say why
            for line in child.stdout:
                on_row(json.loads(line))
        except BaseException:  # our own output failed, most likely: do not leave the child behind
            child.terminate()
            raise
        return_code = child.wait()
        errors.seek(0)
        return Outcome(return_code, errors.read().decode(errors="replace").strip(), bool(seen))


def _start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    # The child gets its own session, so that Ctrl-C reaches it only through us, and starts with SIGINT blocked, so
    # that one that comes before it can handle it is kept for later.
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "daf.tools.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@contextmanager
def forward_interrupts(child: subprocess.Popen[bytes], on_interrupt: Callable[[], None]) -> Iterator[list[int]]:
    """Ctrl-C goes to the child instead of raising here, where it could tear a trace line. Yields those seen."""
    seen: list[int] = []

    def forward(number: int, _frame: object) -> None:
        seen.append(number)
        if len(seen) == 1:
            child.send_signal(signal.SIGINT)
            on_interrupt()
        else:
            child.kill()

    old_handler = signal.signal(signal.SIGINT, forward)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, old_handler)
