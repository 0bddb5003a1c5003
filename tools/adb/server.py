"""Streams through a running adb server, which holds the phone: nobody else can."""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass

from daf.tools.adb.link import PATIENCE_S, ConnectionLost, ServiceRefused, StreamClosed


@dataclass(frozen=True)
class ServerDevice:
    serial: str
    state: str  # device, unauthorized, offline, ...


def server_address() -> tuple[str, int]:
    """Where Google's adb expects its server, by the same variables."""
    host = os.environ.get("ANDROID_ADB_SERVER_HOST") or os.environ.get("ANDROID_ADB_SERVER_ADDRESS") or "127.0.0.1"
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", "")
    return host, int(port) if port.isdigit() else 5037


def server_is_running() -> bool:
    """Asked first: the client library would start a server of its own."""
    try:
        with socket.create_connection(server_address(), timeout=1.0):
            return True
    except OSError:
        return False


def list_server_devices() -> list[ServerDevice]:
    if not server_is_running():
        return []
    from adbutils import AdbClient, AdbError

    try:
        return [ServerDevice(item.serial, item.state) for item in AdbClient(*server_address()).list()]
    except (AdbError, OSError):
        return []


class SocketStream:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(PATIENCE_S)

    def read(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        readable, _, _ = select.select([self._socket], [], [], timeout_s)
        if not readable:
            return None
        try:
            return self._socket.recv(1 << 18)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise ConnectionLost(str(error)) from error
        except OSError as error:
            raise StreamClosed from error

    def has_input(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._socket.close()


class ServerLink:
    def __init__(self, serial: str) -> None:
        from adbutils import AdbClient

        self._serial = serial
        self._client = AdbClient(*server_address(), socket_timeout=PATIENCE_S)

    def open(self, service: str) -> SocketStream:
        from adbutils import AdbError, AdbTimeout

        if not server_is_running():
            raise ConnectionLost("the adb server has gone")
        try:
            connection = self._client.device(serial=self._serial).open_transport(timeout=PATIENCE_S)
        except (AdbError, AdbTimeout, OSError) as error:
            raise ConnectionLost(str(error)) from error
        try:
            # Not the library's send_command(): a name on the device need not be UTF-8.
            data = service.encode(errors="surrogateescape")
            connection.conn.sendall(b"%04x%s" % (len(data), data))
            connection.check_okay()
        except AdbError as error:
            connection.close()
            raise ServiceRefused(str(error)) from error
        except OSError as error:
            connection.close()
            raise ConnectionLost(str(error)) from error
        # A socket of our own: the library's connection closes its own when it is collected.
        stream = SocketStream(connection.conn.dup())
        connection.conn.close()
        return stream

    def reconnect(self) -> None:
        """The server forgets a device on the network that was gone."""
        from adbutils import AdbError

        if ":" in self._serial and server_is_running():
            try:
                self._client.connect(self._serial, timeout=PATIENCE_S)
            except (AdbError, OSError) as error:
                raise ConnectionLost(str(error)) from error

    def close(self) -> None:
        """Every stream has its own connection to the server."""
