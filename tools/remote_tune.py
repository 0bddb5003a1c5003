"""`daf tune` on a device over ADB: the runner measures there, and the table stays where runs on it look for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from daf.errors import Exit, UserError
from daf.files import atomic_write
from daf.tools.adb.bundle import find_bundle
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.facts import FOLDER, read_facts
from daf.tools.adb.link import ConnectionLost
from daf.tools.adb.runner import RUNNER, install_runner, needs_runner, remove_runner
from daf.tools.adb.transfer import make_folders

REDUCE_TABLE = f"{FOLDER}/reduce.json"
_PATIENCE_S = 60.0  # it says that it is alive every second


def tune_remote(device: AdbDevice, software: bool, output: Path | None, on_size: Callable[[int], None]) -> str:
    """Returns whom the table is for; nothing where no GPU can be used. `output` gets a copy of the table."""
    bundle = find_bundle(read_facts(device).platform, str(device))
    make_folders(device, FOLDER)
    is_pushed = needs_runner(device, bundle)
    if is_pushed:
        install_runner(device, bundle)
    tuned = ""
    try:
        for row in _rows(device, f"{RUNNER} --tune {REDUCE_TABLE}{' --software' if software else ''}"):
            if row["type"] == "tuned":
                on_size(row["size"])
            elif row["type"] == "table":
                tuned = row["device"]
            elif row["type"] == "exit" and row["code"]:
                raise UserError(f"{device}: {row['error']}", Exit(row["code"]))
        if tuned and output is not None:
            with atomic_write(output) as file:
                device.pull(REDUCE_TABLE, file)
    finally:
        if is_pushed and device.is_open:
            remove_runner(device)
            device.run("rmdir", FOLDER)  # if nothing is left there
    return tuned


def _rows(device: AdbDevice, script: str) -> Iterator[dict[str, Any]]:
    """What the runner prints, to its last line."""
    stream = device.start(f"exec {script}")
    rest = b""
    try:
        while data := stream.read(_PATIENCE_S):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                row = json.loads(line)
                yield row
                if row["type"] == "exit":
                    return
    except ValueError:
        said = rest.decode(errors="replace").strip()
        raise UserError(f"cannot tune {device}: the runner said {said!r}; install it again", Exit.DEVICE) from None
    finally:
        stream.close()
    raise ConnectionLost("the runner ended, or was silent for too long")
