"""Starts and stops the virtual phone that stays: `daf phone start` and `daf phone stop`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from daf.errors import Exit, UserError
from daf.tools.phone.machine import Settings, end, launch, wait_until_ready
from daf.tools.phone.running import RunningPhone, connect_control, find_phone, state_folder

_STOP_S = 10.0
_TICK_S = 0.05


def start_phone(settings: Settings, say: Callable[[str], None]) -> RunningPhone:
    running = find_phone()
    if running is not None:
        raise UserError(
            f"cannot start the virtual phone: it runs already, as adb:{running.serial}; stop it with: daf phone stop",
            Exit.DEVICE,
        )
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise UserError(
            f"cannot start the virtual phone: somebody is starting it, or was ({folder}); call daf phone stop first",
            Exit.DEVICE,
        ) from error
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror or error}", Exit.DEVICE) from error
    process: subprocess.Popen[bytes] | None = None
    try:
        with (folder / "log").open("w+b") as log:
            process, port = launch(settings, log, say, with_parent=False, control=folder / "control")
            phone = RunningPhone(process.pid, port, settings.memory_bytes, settings.cores)
            (folder / "phone.json").write_text(json.dumps(asdict(phone)))
            wait_until_ready(process, port, log)
    except BaseException:
        if process is not None:
            end(process)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return phone


def stop_phone() -> bool:
    """False if there is none."""
    folder = state_folder()
    phone = find_phone()
    if phone is not None:
        with suppress(OSError):
            _quit(folder)
        deadline = time.monotonic() + _STOP_S
        while is_alive(phone.pid):
            if time.monotonic() > deadline:
                os.kill(phone.pid, signal.SIGKILL)
            time.sleep(_TICK_S)
    shutil.rmtree(folder, ignore_errors=True)
    return phone is not None


def is_alive(pid: int) -> bool:
    """A process that nobody has waited for yet has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _quit(folder: Path) -> None:
    with connect_control(folder) as control, control.makefile("rwb") as lines:
        control.settimeout(_STOP_S)
        lines.readline()  # its greeting
        for command in ("qmp_capabilities", "quit"):
            lines.write(json.dumps({"execute": command}).encode() + b"\n")
            lines.flush()
            lines.readline()
        lines.read()  # ends when it has
