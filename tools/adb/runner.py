"""The runner on a device: is it there, is it the right one, put it there, remove it."""

from __future__ import annotations

import json
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from daf.errors import Exit, UserError
from daf.tools.adb.bundle import Bundle
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.facts import FOLDER, RUNNER_INFO
from daf.tools.adb.transfer import make_folders, push_file

RUNNER_FOLDER = f"{FOLDER}/runner"
RUNNER = f"{RUNNER_FOLDER}/daf_runner"


def host_version() -> str:
    return metadata.version("daf-mobile")


def installed_info(device: AdbDevice) -> dict[str, Any] | None:
    """What the last installation wrote; it is written last, so what it describes is complete."""
    done = device.run("cat", RUNNER_INFO)
    if done.code != 0:
        return None
    try:
        info = json.loads(done.output)
    except ValueError:
        return None
    return info if isinstance(info, dict) else None


def needs_runner(device: AdbDevice, bundle: Bundle) -> bool:
    """Whether the runner must be pushed, because none, or another build of it, is there.

    A runner of another version belongs to somebody who installed it: it is not replaced behind their back.
    """
    info = installed_info(device)
    if info is not None and info.get("daf_version") != host_version():
        raise UserError(
            f"cannot run on {device}: its runner is of daf {info.get('daf_version')} and this is daf {host_version()}; "
            f"update the runner with: daf install --device {device.target}",
            Exit.DEVICE,
        )
    if info is not None and info.get("sha256") == bundle.sha256:
        check_runner(device)
        return False
    return True


def install_runner(device: AdbDevice, bundle: Bundle) -> None:
    remove_runner(device)
    make_folders(device, RUNNER_FOLDER)
    for path in bundle.files:
        push_file(device, path, f"{RUNNER_FOLDER}/{path.name}", mode=0o755)
    hello = check_runner(device)
    info = {"daf_version": hello["daf_version"], "platform": bundle.platform, "sha256": bundle.sha256}
    with tempfile.NamedTemporaryFile() as file:
        file.write(json.dumps(info).encode())
        file.flush()
        push_file(device, Path(file.name), RUNNER_INFO)


def remove_runner(device: AdbDevice) -> None:
    device.run("rm", "-rf", RUNNER_FOLDER)


def check_runner(device: AdbDevice) -> dict[str, Any]:
    """Starts it once: a wrong ABI, a missing library or a missing permission show now."""
    done = device.run(RUNNER, "--version")
    try:
        hello = json.loads(done.output) if done.code == 0 else None
    except ValueError:
        hello = None
    if not isinstance(hello, dict) or hello.get("format") != "daf-runner":
        said = " ".join(done.output.split()) or f"exit code {done.code}"
        raise UserError(
            f"cannot start the runner on {device}: {said}; it must be built for this device, in a folder that allows "
            "execution",
            Exit.DEVICE,
        )
    if hello.get("daf_version") != host_version():
        raise UserError(
            f"cannot use the runner for {device}: it is of daf {hello.get('daf_version')} and this is daf "
            f"{host_version()}; build or install daf again, so that both are of one version",
            Exit.DEVICE,
        )
    return hello
