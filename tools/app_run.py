"""Runs a training request in the app on a device: pushes what it needs, starts the app's service, pulls what it made.

The app reads and writes in its own folder alone: every name in its request is relative to that.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from daf.errors import UserError
from daf.tools.adb.app import APP_FOLDER, check_app, kill_app
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.link import ConnectionLost
from daf.tools.adb.runner import host_version
from daf.tools.adb.transfer import make_folders, push_by_hash, push_file, remove_partial_files
from daf.tools.app_watch import AppWatch
from daf.tools.local_device import Outcome
from daf.tools.progress import Progress
from daf.tools.remote_run import check_program_version, push_checkpoint
from daf.tools.remote_watch import RemoteFiles

_FILES = f"{APP_FOLDER}/files"
_CLEAN_UP_S = 5.0


def run_in_app(
    device: AdbDevice,
    request: Mapping[str, Any],
    progress: Progress,
    *,
    keep: bool,
    threads: int | None,
    on_interrupt: Callable[[], None],
) -> Outcome:
    """As run_remote() does with the runner."""
    check_program_version(Path(request["program"]))
    check_app(device)
    files = RemoteFiles(f"{APP_FOLDER}/runs/{secrets.token_hex(6)}")
    try:
        _prepare(device, request, files, threads)
        return AppWatch(device, files, request, progress).run(None, on_interrupt)
    except KeyboardInterrupt:
        device.close()  # it may have come in the middle of a message
        raise
    finally:
        _clean_up(device, files, keep)


def _prepare(device: AdbDevice, request: Mapping[str, Any], files: RemoteFiles, threads: int | None) -> None:
    make_folders(device, _FILES, files.save_folder, files.resume_folder)
    on_device: dict[str, Any] = dict(request)
    for name, suffix in (("program", ".pte"), ("manifest", ".json"), ("data", ".safetensors")):
        path, pushed = push_by_hash(device, Path(request[name]), suffix, folder=_FILES)
        on_device[name] = _relative(path)
        if pushed:
            files.pushed.append(path)
    if request["resume"]:
        on_device["resume"] = _relative(push_checkpoint(device, Path(request["resume"]), files))
    if request["save"]:
        on_device["save"] = _relative(f"{files.save_folder}/{Path(request['save']).name}")
    on_device["trace"] = _relative(files.trace)
    envelope = {
        "format": "daf-app-request",
        "schema": 1,
        "daf_version": host_version(),
        "threads": threads,
        "request": on_device,
    }
    with tempfile.NamedTemporaryFile() as file:
        file.write(json.dumps(envelope).encode())
        file.flush()
        push_file(device, Path(file.name), files.request)


def _relative(path: str) -> str:
    return path.removeprefix(f"{APP_FOLDER}/")


def _clean_up(device: AdbDevice, files: RemoteFiles, keep: bool) -> None:
    """Leaves the app's folder as it was, if it can be reached."""
    if files.left_behind:
        return
    with suppress(ConnectionLost, UserError):
        if not device.is_open:
            device.reopen(_CLEAN_UP_S)
        if files.running_pid is not None:
            kill_app(device)
        remove_partial_files(device, _FILES)
        device.run("rm", "-rf", files.run)
        if files.pushed and not keep:
            device.run("rm", "-f", *files.pushed)
