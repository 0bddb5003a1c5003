"""Starts the machine of a virtual phone and waits until adbd answers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from daf.errors import Exit, UserError
from daf.tools.adb.device import AdbDevice
from daf.tools.adb.link import ConnectionLost
from daf.tools.adb.target import Target
from daf.tools.phone.image import Image, get_image

_EMULATOR = "qemu-system-aarch64"
_READY = b"daf-phone: ready"  # what guest/init.sh says when adbd listens
_BOOT_S = 180.0  # some ten are enough on a machine that is not busy
_CONNECT_S = 30.0
_STOP_S = 10.0
_TICK_S = 0.05
_PORT_ATTEMPTS = 5


@dataclass(frozen=True)
class Settings:
    memory_bytes: int = 256 << 20
    cores: int = 2


@contextmanager
def open_phone(settings: Settings, say: Callable[[str], None]) -> Iterator[str]:
    """A phone that lives as long as the block, and never longer than this process. Yields its name for --device."""
    with tempfile.TemporaryFile() as log:
        process, port = launch(settings, log, say, with_parent=True)
        try:
            wait_until_ready(process, port, log)
            yield f"adb:127.0.0.1:{port}"
        finally:
            end(process)


def launch(
    settings: Settings, log: BinaryIO, say: Callable[[str], None], *, with_parent: bool, control: Path | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """The machine, and the port of this computer that leads to its adbd. What it prints goes to `log`.

    With `with_parent` it ends with us, however we end. `control` is where its QMP socket is made.
    """
    check_host()
    image = get_image(say)
    for _ in range(_PORT_ATTEMPTS):
        port = _free_port()
        command = machine_command(image, settings, port, control)
        if with_parent:
            command = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        if _port_is_taken(process, port):
            return process, port
        if b"host forwarding" not in _text(log):
            break
    raise UserError(f"cannot start the virtual phone: {_tail(log)}", Exit.DEVICE)


def check_host() -> None:
    tools = {_EMULATOR: "qemu-system-arm", "mke2fs": "e2fsprogs", "setpriv": "util-linux", "apt-get": "apt"}
    folders = "/usr/sbin:/sbin"  # not every user has these in PATH
    packages = [
        package for tool, package in tools.items() if not (shutil.which(tool) or shutil.which(tool, path=folders))
    ]
    if packages:
        raise UserError(
            f"cannot start a virtual phone: {', '.join(packages)} is missing; install it (Debian: apt-get install "
            f"--no-install-recommends {' '.join(packages)})",
            Exit.DEVICE,
        )


def machine_command(image: Image, settings: Settings, port: int, control: Path | None) -> list[str]:
    disks = [
        f"if=none,id=system,file={image.system},format=raw,readonly=on",
        # What the phone writes goes to a nameless temporary file.
        f"if=none,id=data,file={image.data},format=raw,snapshot=on,cache=unsafe",
    ]
    return [
        _EMULATOR,
        *("-M", "virt,gic-version=3", "-cpu", "cortex-a76", "-smp", str(settings.cores)),
        *("-accel", "tcg,thread=multi", "-m", f"{settings.memory_bytes >> 20}M"),
        *("-nodefaults", "-no-reboot", "-display", "none"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
        *("-append", "console=ttyAMA0 quiet cma=0 panic=-1"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:5555"),
        *("-device", "virtio-net-device,netdev=net"),
        *(word for disk in disks for word in ("-drive", disk)),
        *("-device", "virtio-blk-device,drive=system,serial=system"),
        *("-device", "virtio-blk-device,drive=data,serial=data"),
        *(("-qmp", f"unix:{control},server=on,wait=off") if control else ()),
    ]


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: BinaryIO) -> None:
    # The port opens before the phone has booted: only the phone itself says when it has.
    deadline = time.monotonic() + _BOOT_S
    while _READY not in _text(log):
        if process.poll() is not None:
            raise UserError(f"the virtual phone did not boot: {_tail(log)}; give it more --memory", Exit.DEVICE)
        if time.monotonic() > deadline:
            raise UserError(f"the virtual phone did not boot in {_BOOT_S:.0f} s: {_tail(log)}", Exit.DEVICE)
        time.sleep(_TICK_S)
    device = AdbDevice(Target("tcp", f"127.0.0.1:{port}"))
    try:
        device.reopen(_CONNECT_S)
    except ConnectionLost as error:
        raise UserError(f"the virtual phone has booted, but its adbd does not answer: {error}", Exit.DEVICE) from error
    finally:
        device.close()


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _port_is_taken(process: subprocess.Popen[bytes], port: int) -> bool:
    """By the machine: it ends at once if it cannot have it."""
    while process.poll() is None:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                time.sleep(_TICK_S)
                return process.poll() is None
        time.sleep(_TICK_S)
    return False


def _text(log: BinaryIO) -> bytes:
    log.seek(0)
    return log.read()


def _tail(log: BinaryIO) -> str:
    lines = [line.strip() for line in _text(log).decode(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "it said nothing"
