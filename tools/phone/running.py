"""How the virtual phone that `daf phone start` left running is found again.

Its folder holds `phone.json` (what it is), `control` (its QMP socket) and `log` (what it printed).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunningPhone:
    pid: int
    port: int
    memory_bytes: int
    cores: int

    @property
    def serial(self) -> str:
        return f"127.0.0.1:{self.port}"


def state_folder() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder) / "daf-phone" if folder else Path(tempfile.gettempdir()) / f"daf-phone-{os.getuid()}"


def find_phone() -> RunningPhone | None:
    """The one that runs; what a dead one left is removed."""
    folder = state_folder()
    try:
        phone = RunningPhone(**json.loads((folder / "phone.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    try:
        connect_control(folder).close()
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return phone


def connect_control(folder: Path) -> socket.socket:
    control = socket.socket(socket.AF_UNIX)
    try:
        control.connect(str(folder / "control"))
    except OSError:
        control.close()
        raise
    return control
