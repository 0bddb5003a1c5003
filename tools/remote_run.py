"""Runs a training request on a device over ADB: pushes what it needs, watches over it, pulls what it made.

Nothing a user named reaches the device's shell: files are named by their hash or lie in a folder with a name of ours,
and names inside it (the checkpoint's, which its optimizer state refers to) travel in the request and by file transfer.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from daf.errors import Exit, UserError
from daf.manifest import manifest_path, read_manifest
from daf.tools.adb.bundle import find_bundle
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.facts import FOLDER, read_facts
from daf.tools.adb.link import ConnectionLost
from daf.tools.adb.runner import host_version, install_runner, needs_runner, remove_runner
from daf.tools.adb.transfer import FILES, make_folders, push_by_hash, push_file, remove_partial_files
from daf.tools.inputs import read_header
from daf.tools.local_device import Outcome
from daf.tools.memory_advice import warn_of_size
from daf.tools.progress import Progress
from daf.tools.remote_tune import REDUCE_TABLE
from daf.tools.remote_watch import RemoteFiles, RemoteWatch

_CLEAN_UP_S = 5.0


def run_remote(
    device: AdbDevice,
    request: Mapping[str, Any],
    progress: Progress,
    *,
    keep: bool,
    threads: int | None,
    on_interrupt: Callable[[], None],
) -> Outcome:
    """As run_local() does on this machine. Raises UserError when the connection or the runner is lost."""
    check_program_version(Path(request["program"]))
    files = RemoteFiles(f"{FOLDER}/runs/{secrets.token_hex(6)}")
    try:
        _prepare(device, request, files)
        return RemoteWatch(device, files, request, progress).run(threads, on_interrupt)
    except KeyboardInterrupt:
        device.close()  # it may have come in the middle of a message
        raise
    finally:
        _clean_up(device, files, keep)


def check_program_version(program: Path) -> None:
    made_by = str(read_manifest(manifest_path(program)).raw.get("daf_version", "?"))
    if made_by.split(".")[:2] != host_version().split(".")[:2]:
        raise UserError(
            f"cannot run {program}: it was made by daf {made_by} and this is daf {host_version()}; export it again "
            "with daf-export",
            Exit.PROGRAM,
        )


def _prepare(device: AdbDevice, request: Mapping[str, Any], files: RemoteFiles) -> None:
    facts = read_facts(device)
    plan = read_manifest(Path(request["manifest"])).memory
    if warning := warn_of_size(plan, request["budget_bytes"], facts.ram_free_bytes):
        click.echo(f"warning: {warning}", err=True)
    bundle = find_bundle(facts.platform, str(device))
    make_folders(device, FILES, files.save_folder, files.resume_folder)
    if needs_runner(device, bundle):
        files.runner_was_pushed = True
        install_runner(device, bundle)
    on_device: dict[str, Any] = dict(request)
    for name, suffix in (("program", ".pte"), ("manifest", ".json"), ("data", ".safetensors")):
        path, pushed = push_by_hash(device, Path(request[name]), suffix)
        on_device[name] = path
        if pushed:
            files.pushed.append(path)
    if request["resume"]:
        on_device["resume"] = push_checkpoint(device, Path(request["resume"]), files)
    if request["save"]:
        on_device["save"] = f"{files.save_folder}/{Path(request['save']).name}"
    on_device["trace"] = files.trace
    on_device["reduce_table"] = REDUCE_TABLE
    with tempfile.NamedTemporaryFile() as file:
        file.write(json.dumps(on_device).encode())
        file.flush()
        push_file(device, Path(file.name), files.request)


def push_checkpoint(device: AdbDevice, weights: Path, files: RemoteFiles) -> str:
    """With its optimizer state beside it, under the name that the checkpoint refers to."""
    path = f"{files.resume_folder}/{weights.name}"
    optimizer = read_header(weights).metadata.get("optimizer_file")
    # The device says what is wrong if it is missing.
    if optimizer and (beside := weights.parent / Path(optimizer).name).is_file():
        push_file(device, beside, f"{files.resume_folder}/{beside.name}")
    push_file(device, weights, path)
    return path


def _clean_up(device: AdbDevice, files: RemoteFiles, keep: bool) -> None:
    """Leaves the device as it was, if it can be reached. With `keep`, all but what the next run would push again."""
    if files.left_behind:
        return
    with suppress(ConnectionLost, UserError):
        if not device.is_open:
            device.reopen(_CLEAN_UP_S)
        if files.running_pid is not None:
            device.run("kill", "-KILL", str(files.running_pid))
        remove_partial_files(device)
        device.run("rm", "-rf", files.run)
        if keep:
            return
        if files.pushed:
            device.run("rm", "-f", *files.pushed)
        if files.runner_was_pushed:
            remove_runner(device)
        device.run("rmdir", f"{FOLDER}/runs", FILES, FOLDER)  # those that are empty
