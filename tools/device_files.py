"""`daf push`, `daf pull`, `daf install`, `daf logs`, `daf shell-env`: the parts of a run on a device, one by one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daf.errors import Exit, UserError
from daf.files import check_output

if TYPE_CHECKING:
    from daf.tools.adb.device import AdbDevice

FILE = click.Path(path_type=Path)
device_option = click.option(
    "--device", default="adb", show_default=True, help="adb, adb:SERIAL, adb:HOST:PORT or usb:SERIAL."
)


@click.command(short_help="Put files on a device.")
@click.argument("files", type=FILE, nargs=-1, required=True)
@device_option
@click.option("--to", metavar="PATH", help="Where to, on the device; a folder if there are several files.")
def push(files: tuple[Path, ...], device: str, to: str | None) -> None:
    """Put FILES on a device.

    Without --to they are put where daf run looks for them, by their content: a run then need not push them. With a
    program goes its manifest.

    \b
    Examples:
      daf push digits.pte train.safetensors
      daf push notes.txt --to /data/local/tmp/notes.txt --device adb:192.168.1.20:5555
    """
    for path in files:
        if not path.is_file():
            raise UserError(f"cannot push {path}: {'it is a folder' if path.is_dir() else 'no such file'}", Exit.DATA)
    from daf.manifest import manifest_path
    from daf.tools.adb.device import open_device
    from daf.tools.adb.transfer import FILES, make_folders, push_by_hash, push_file

    with open_device(device) as connected:
        if to is not None:
            found = connected.stat(to)
            into_folder = len(files) > 1 or to.endswith("/") or (found is not None and found.is_folder)
            for path in files:
                target = f"{to.rstrip('/')}/{path.name}" if into_folder else to
                push_file(connected, path, target)
                click.echo(f"{path} is {target}")
            return
        make_folders(connected, FILES)
        with_manifests = [other for path in files for other in (path, manifest_path(path)) if other.is_file()]
        for path in dict.fromkeys(with_manifests):
            target, pushed = push_by_hash(connected, path, path.suffix)
            click.echo(f"{path} {'is' if pushed else 'was already'} {target}")


@click.command(short_help="Get a file from a device.")
@click.argument("path")
@device_option
@click.option("-o", "--output", type=FILE, help="Where to; without it, here, under its own name.")
def pull(path: str, device: str, output: Path | None) -> None:
    """Get the file PATH from a device.

    \b
    Examples:
      daf pull /data/local/tmp/daf/runs/1a2b3c/run.trace
      daf pull /data/local/tmp/notes.txt -o notes.txt --device usb:0A1B2C3D
    """
    target = output or Path(path.rstrip("/").rpartition("/")[2] or "pulled")
    check_output(target)
    from daf.tools.adb.device import open_device
    from daf.tools.adb.transfer import pull_file

    with open_device(device) as connected:
        pull_file(connected, path, target)
    click.echo(f"wrote {target}")


@click.command(short_help="Install the runner on a device.")
@device_option
@click.option(
    "--via", type=click.Choice(["runner", "app"]), default="runner", show_default=True, help="What to install."
)
@click.option("--apk", type=FILE, help="The app, as Gradle or daf apk build made it; for --via app.")
@click.option("--remove", is_flag=True, help="Remove it instead, with all files that daf left there.")
def install(device: str, via: str, apk: Path | None, remove: bool) -> None:
    """Install the runner or the app on a device, or update it: runs then need not push the runner.

    \b
    Examples:
      daf install
      daf install --device adb:192.168.1.20:5555
      daf install --remove
      daf install --via app --apk android/app/build/outputs/apk/debug/app-debug.apk
    """
    if (via == "app" and not remove) != (apk is not None):
        raise click.UsageError("--apk FILE and --via app belong together; docs/phone.md says how to make one")
    if apk is not None and not apk.is_file():
        raise UserError(f"cannot install {apk}: no such file; build it with Gradle or daf apk build", Exit.DATA)
    from daf.tools.adb.bundle import find_bundle
    from daf.tools.adb.device import open_device
    from daf.tools.adb.facts import FOLDER, read_facts
    from daf.tools.adb.runner import RUNNER_FOLDER, host_version, install_runner

    with open_device(device) as connected:
        if via == "app":
            _install_app(connected, apk)
            return
        if remove:
            connected.run("rm", "-rf", FOLDER)
            click.echo(f"removed {FOLDER} from {connected}")
            return
        install_runner(connected, find_bundle(read_facts(connected).platform, str(connected)))
        click.echo(f"installed the runner of daf {host_version()} in {RUNNER_FOLDER} on {connected}")


def _install_app(device: AdbDevice, apk: Path | None) -> None:
    from daf.tools.adb.app import install_app, remove_app

    if apk is None:
        remove_app(device)
        click.echo(f"removed the app and its files from {device}")
    else:
        install_app(device, apk)
        click.echo(f"installed {apk} on {device}, and opened it: allow notifications, to see runs there")


@click.command(short_help="Show what a device logged about daf.")
@device_option
@click.option("--all", "show_all", is_flag=True, help="The whole log.")
def logs(device: str, show_all: bool) -> None:
    """Show the lines of a device's log that concern daf: its own, crashes, and processes killed for memory.

    \b
    Examples:
      daf logs
      daf logs --all --device adb:192.168.1.20:5555
    """
    from daf.tools.adb.device import open_device

    words = ("daf", "executorch", "lowmemorykiller", "lmkd", "debug  :", "fatal signal", "out of memory")
    with open_device(device) as connected:
        done = connected.run("logcat", "-d", "-v", "threadtime", timeout_s=60.0)
        if done.code != 0:
            raise UserError(f"cannot read the log of {connected}: it has no logcat; is it Android?", Exit.DEVICE)
        for line in done.output.splitlines():
            if show_all or any(word in line.lower() for word in words):
                click.echo(line)


@click.command(short_help="Print what a shell needs to use a device by hand.")
@device_option
def shell_env(device: str) -> None:
    """Print shell variables for a device: its serial, where daf keeps its files, and the runner.

    \b
    Examples:
      eval "$(daf shell-env)"
      adb shell "$DAF_RUNNER" --version
    """
    from daf.tools.adb.device import open_device
    from daf.tools.adb.facts import FOLDER, read_facts
    from daf.tools.adb.runner import RUNNER

    with open_device(device) as connected:
        facts = read_facts(connected)
        values = {
            "ANDROID_SERIAL": connected.target.serial,
            "DAF_DEVICE": str(connected.target),
            "DAF_PLATFORM": facts.platform,
            "DAF_FOLDER": FOLDER,
            "DAF_RUNNER": RUNNER if facts.runner else "",
        }
    for name, value in values.items():
        click.echo(f"export {name}={shlex.quote(value)}")
