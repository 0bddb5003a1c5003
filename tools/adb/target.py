"""Which device is meant: `adb`, `adb:SERIAL`, `adb:HOST:PORT`, `usb:SERIAL`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daf.errors import Exit, UserError
from daf.tools.adb.link import ConnectionLost, Link
from daf.tools.adb.server import ServerDevice, ServerLink, list_server_devices, server_is_running
from daf.tools.phone.running import RunningPhone, find_phone

if TYPE_CHECKING:
    from adb_shell.transport.usb_transport import UsbTransport

AUTH_TIMEOUT_S = 60.0  # for a person to find the phone and accept
DEFAULT_PORT = 5555


@dataclass(frozen=True)
class Target:
    """How to reach a device: `way` is server, usb or tcp."""

    way: str
    serial: str  # HOST:PORT for tcp

    def __str__(self) -> str:
        return f"{'usb' if self.way == 'usb' else 'adb'}:{self.serial}"


def find_target(spec: str) -> Target:
    kind, _, name = spec.partition(":")
    if kind not in ("adb", "usb"):
        raise UserError(
            f"cannot use --device {spec}: write local, qemu, adb, adb:SERIAL, adb:HOST:PORT or usb:SERIAL", Exit.USAGE
        )
    name = name or os.environ.get("ANDROID_SERIAL", "")
    served = list_server_devices()
    on_usb = [] if name and _address(name) else list_usb_serials()
    if not name:
        return _only_target(kind, served, on_usb, find_phone())
    # What a server holds can only be reached through it.
    for device in served:
        if device.serial == name:
            _check_state(device)
            return Target("server", name)
    if name in on_usb:
        return Target("usb", name)
    if kind == "adb" and (address := _address(name)):
        return Target("tcp", "{}:{}".format(*address))
    others = ", ".join(sorted({device.serial for device in served} | set(on_usb))) or "none"
    raise UserError(f"cannot find the device {name} (there: {others}); plug it in and see `daf devices`", Exit.DEVICE)


def all_targets() -> list[tuple[Target, str]]:
    """Every device that can be seen, with its state: `device` when it can be used."""
    found = [(Target("server", device.serial), device.state) for device in list_server_devices()]
    found += [(Target("usb", serial), "device") for serial in list_usb_serials()]
    if (phone := find_phone()) is not None:
        found.append((Target("tcp", phone.serial), "device"))
    unique: dict[str, tuple[Target, str]] = {}
    for target, state in found:  # what a server holds comes first: it can only be reached through it
        unique.setdefault(target.serial, (target, state))
    return list(unique.values())


def open_link(target: Target, on_prompt: Callable[[], None]) -> Link:
    """Raises ConnectionLost when the device is not there."""
    if target.way == "server":
        link = ServerLink(target.serial)
        link.reconnect()
        return link
    from daf.tools.adb.direct import DirectLink, ReliableTcpTransport
    from daf.tools.adb.keys import load_signer

    if target.way == "tcp":
        host, port = _address(target.serial) or ("", 0)
        transport = ReliableTcpTransport(host, port)
    else:
        transport = _open_usb(target.serial)
    direct = DirectLink(transport, str(target))
    try:
        direct.connect(load_signer(), on_prompt, AUTH_TIMEOUT_S)
    except BaseException:
        direct.close()
        raise
    return direct


def list_usb_serials() -> list[str]:
    """Empty without libusb: phones on USB are then reached through an adb server only."""
    try:
        from adb_shell.transport.usb_transport import UsbTransport

        return [transport.serial_number for transport in UsbTransport.find_all_adb_devices()]
    except Exception:  # no libusb, no permission, or whatever it says of a device that is just leaving
        return []


def _open_usb(serial: str) -> UsbTransport:
    try:
        from adb_shell.transport.usb_transport import UsbTransport

        return UsbTransport.find_adb(serial=serial)
    except ImportError as error:
        raise UserError(
            f"cannot use USB: {error}; install libusb (Debian: apt-get install libusb-1.0-0), or start Google's adb "
            "server and use --device adb",
            Exit.DEVICE,
        ) from error
    except Exception as error:
        raise ConnectionLost(str(error)) from error


def _only_target(
    kind: str, served: list[ServerDevice], on_usb: list[str], virtual: RunningPhone | None = None
) -> Target:
    candidates = [] if kind == "usb" else list(served)
    candidates += [ServerDevice(serial, "usb") for serial in on_usb if serial not in {d.serial for d in served}]
    if virtual is not None and kind == "adb" and virtual.serial not in {d.serial for d in served}:
        candidates.append(ServerDevice(virtual.serial, "tcp"))
    if len(candidates) > 1:
        serials = ", ".join(device.serial for device in candidates)
        raise UserError(
            f"cannot choose a device: there are {len(candidates)} ({serials}); name one with --device adb:SERIAL",
            Exit.DEVICE,
        )
    if not candidates:
        server = "an adb server is running and has none" if server_is_running() else "no adb server is running"
        raise UserError(
            f"cannot find a device: none on USB, and {server}; plug one in with USB debugging on, give its address "
            "with --device adb:HOST:PORT, or start a virtual one with `daf phone start`",
            Exit.DEVICE,
        )
    (device,) = candidates
    if device.state in ("usb", "tcp"):
        return Target(device.state, device.serial)
    _check_state(device)
    return Target("server", device.serial)


def _check_state(device: ServerDevice) -> None:
    if device.state == "unauthorized":
        raise UserError(
            f"cannot use {device.serial}: it does not accept this computer's key; unlock it, accept the prompt "
            "'Allow USB debugging?' and call this again",
            Exit.DEVICE,
        )
    if device.state != "device":
        raise UserError(
            f"cannot use {device.serial}: the adb server says that it is {device.state}; plug it in again, or call "
            "adb reconnect",
            Exit.DEVICE,
        )


def _address(name: str) -> tuple[str, int] | None:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = name.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    return host.strip("[]"), int(port)
