"""Runs a training request with the runner for arm64, emulated on this machine: `--device qemu`.

Correct to the bit, and some hundred times slower than a phone. The memory it shows is that of the emulator.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from daf.errors import Exit, UserError
from daf.tools.adb.bundle import find_bundle
from daf.tools.local_device import Outcome, TraceRow, forward_interrupts

PLATFORM = "linux-aarch64"
_EMULATOR = "qemu-aarch64-static"
_LIBRARIES = Path("/usr/aarch64-linux-gnu")  # of the cross compiler
_NOT_OF_THE_TRACE = ("hello", "alive", "exit")


def emulator_command() -> list[str]:
    """What a program for arm64 is put behind."""
    if shutil.which(_EMULATOR) is None or not (_LIBRARIES / "lib/ld-linux-aarch64.so.1").exists():
        raise UserError(
            "cannot run on qemu: the emulator or the libraries for arm64 are missing; install them (Debian: apt-get "
            "install qemu-user-static g++-aarch64-linux-gnu)",
            Exit.DEVICE,
        )
    return [_EMULATOR, "-cpu", "cortex-a76", "-L", str(_LIBRARIES)]


def run_emulated(
    request: Mapping[str, Any], on_row: Callable[[TraceRow], None], on_interrupt: Callable[[], None]
) -> Outcome:
    """As run_local() does with this machine's own instructions."""
    command = emulator_command()
    runner = next(path for path in find_bundle(PLATFORM, "qemu").files if path.name == "daf_runner")
    last: TraceRow = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file, tempfile.TemporaryFile() as errors:
        json.dump(request, file)
        file.flush()
        with (
            subprocess.Popen(
                [*command, runner, file.name],
                stdin=subprocess.PIPE,  # held open: its end means that we are gone
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            ) as child,
            forward_interrupts(child, on_interrupt) as seen,
        ):
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    last = json.loads(line)
                    if last["type"] not in _NOT_OF_THE_TRACE:
                        on_row(last)
            except BaseException:  # our own output failed, most likely: do not leave the child behind
                child.terminate()
                raise
            return_code = child.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    if last.get("type") == "exit":
        return Outcome(int(last["code"]), str(last["error"] or ""), bool(seen))
    if return_code >= 0:
        raise UserError(f"cannot start the runner on qemu: {said or 'it ended without a word'}", Exit.DEVICE)
    return Outcome(return_code, said, bool(seen))
