"""The app on a device: is it there, is it the right one, put it there, tell its service what to do."""

from __future__ import annotations

from pathlib import Path

from daf.errors import Exit, UserError
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.facts import APP_PACKAGE, FOLDER, read_facts
from daf.tools.adb.runner import host_version
from daf.tools.adb.transfer import make_folders, push_file

# The app's part of the shared storage: its own, and the shell's to reach. The app makes it when it is first opened.
APP_FOLDER = f"/sdcard/Android/data/{APP_PACKAGE}/files"
_SERVICE = f"{APP_PACKAGE}/.RunService"
_INSTALL_S = 120.0


def check_app(device: AdbDevice) -> None:
    """Fails unless the app is there, of this version, and has been opened."""
    found = read_facts(device).app
    if not found:
        raise UserError(
            f"cannot run --via app on {device}: the app is not installed; install it with: daf install --via app "
            f"--apk FILE --device {device.target}",
            Exit.DEVICE,
        )
    if found.partition("-")[0] != host_version():
        raise UserError(
            f"cannot run --via app on {device}: its app is of daf {found} and this is daf {host_version()}; install "
            f"the one of this version with: daf install --via app --apk FILE --device {device.target}",
            Exit.DEVICE,
        )
    if device.run("test", "-d", APP_FOLDER).code != 0:
        raise UserError(
            f"cannot reach the app's folder {APP_FOLDER} on {device}: open the app once on the device, and call this "
            "again",
            Exit.DEVICE,
        )


def install_app(device: AdbDevice, apk: Path) -> None:
    """Installs or updates it, and opens it once, so that it makes its folder."""
    path = f"{FOLDER}/app.apk"
    make_folders(device, FOLDER)
    push_file(device, apk, path)
    done = device.run("pm", "install", "-r", "-t", path, timeout_s=_INSTALL_S)
    device.run("rm", "-f", path)
    if done.code != 0 or "Success" not in done.output:
        said = " ".join(done.output.split()) or f"exit code {done.code}"
        raise UserError(f"cannot install {apk} on {device}: {said}; {_next_step(said)}", Exit.DEVICE)
    device.run("am", "start", "-n", f"{APP_PACKAGE}/.MainActivity")


def remove_app(device: AdbDevice) -> None:
    done = device.run("pm", "uninstall", APP_PACKAGE, timeout_s=_INSTALL_S)
    if done.code != 0:
        raise UserError(f"cannot remove the app from {device}: {' '.join(done.output.split())}", Exit.DEVICE)


def tell_service(device: AdbDevice, command: str, **extras: str) -> None:
    words = ["am", "start-foreground-service", "-n", _SERVICE, "-a", f"{APP_PACKAGE}.{command}"]
    for name, value in extras.items():
        words += ["--es", name, value]
    done = device.run(*words)
    if done.code != 0 or "Error" in done.output or "Exception" in done.output:
        said = " ".join(done.output.split()) or f"exit code {done.code}"
        raise UserError(
            f"cannot reach the app on {device}: {said}; open the app on the device, and call this again", Exit.DEVICE
        )


def kill_app(device: AdbDevice) -> None:
    device.run("am", "force-stop", APP_PACKAGE)


def _next_step(said: str) -> str:
    steps = {
        "UPDATE_INCOMPATIBLE": "the one there is signed with another key: first call daf install --via app --remove",
        "VERSION_DOWNGRADE": "a newer one is there: first call daf install --via app --remove",
        "INSUFFICIENT_STORAGE": "free some storage on the device",
        "NO_MATCHING_ABIS": "it was built for other processors: build it for the device's",
        "USER_RESTRICTED": "allow 'Install via USB' in the developer options",
        "not found": "is it Android?",
    }
    return next((step for words, step in steps.items() if words in said), "see `daf logs`")
