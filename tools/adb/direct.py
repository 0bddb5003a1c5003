"""The ADB protocol over a transport of adb-shell (TCP or USB), with several streams at once, in one thread.

A message is a header of six little-endian words (command, two arguments, length, sum of the bytes, command inverted)
and data. Both sides answer data with OKAY before more is sent: we when the data was taken, so that a fast device does
not fill our memory.
"""

from __future__ import annotations

import select
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from adb_shell import constants, exceptions
from adb_shell.transport.tcp_transport import TcpTransport

from daf.errors import Exit, UserError
from daf.tools.adb.link import PATIENCE_S, ConnectionLost, ServiceRefused, StreamClosed

_HEADER = struct.Struct("<6I")
_VERSION_WITHOUT_SUMS = 0x01000001
_STLS = int.from_bytes(b"STLS", "little")
_MAX_DATA_BYTES = 1 << 20
_AUTH_SIGNATURE, _AUTH_PUBLIC_KEY = 2, 3
_COMMANDS = {name: int.from_bytes(name, "little") for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE")}
CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = _COMMANDS.values()

# What a transport raises when the other side is gone, or when time is up.
_TRANSPORT_ERRORS = (OSError, exceptions.UsbReadFailedError, exceptions.UsbWriteFailedError)


class Signer(Protocol):
    """A key of adb_shell.auth."""

    def Sign(self, data: bytes) -> bytes: ...

    def GetPublicKey(self) -> str | bytes: ...


class ReliableTcpTransport(TcpTransport):  # type: ignore[misc]
    """adb-shell's own takes a partly sent message for a sent one, and spins when the device has hung up."""

    def bulk_read(self, numbytes: int, transport_timeout_s: float | None) -> bytes:
        data: bytes = super().bulk_read(numbytes, transport_timeout_s)
        if not data:
            raise ConnectionResetError("the device closed the connection")
        return data

    def bulk_write(self, data: bytes, transport_timeout_s: float | None) -> int:
        rest = memoryview(data)
        while rest:
            _, writable, _ = select.select([], [self._connection], [], transport_timeout_s)
            if not writable:
                raise TimeoutError(f"the device took nothing for {transport_timeout_s} s")
            rest = rest[self._connection.send(rest) :]
        return len(data)


class DirectStream:
    def __init__(self, link: DirectLink, local_id: int) -> None:
        self._link = link
        self.local_id = local_id
        self.remote_id = 0
        self.may_send = False
        self.ended = False
        self.inbox: deque[bytes] = deque()

    def read(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        if not self.inbox and not self.ended:
            self._link.pump(timeout_s, lambda: bool(self.inbox) or self.ended)
        if self.inbox:
            data = self.inbox.popleft()
            if not self.ended:
                self._link.send(OKAY, self.local_id, self.remote_id)
            return data
        return b"" if self.ended else None

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._link.pump(PATIENCE_S, lambda: self.may_send or self.ended)
            if self.ended:
                raise StreamClosed
            if not self.may_send:
                raise ConnectionLost(f"the device took nothing for {PATIENCE_S:.0f} s")
            self.may_send = False
            self._link.send(WRTE, self.local_id, self.remote_id, bytes(rest[: self._link.max_data_bytes]))
            rest = rest[self._link.max_data_bytes :]

    def has_input(self) -> bool:
        if not self.inbox and not self.ended:
            self._link.pump(0, lambda: bool(self.inbox) or self.ended)
        return bool(self.inbox) or self.ended

    def close(self) -> None:
        self._link.forget(self)


class DirectLink:
    def __init__(self, transport: Any, name: str) -> None:
        """`name` is for messages."""
        self._transport = transport
        self._name = name
        self._sums = True
        self.max_data_bytes = 4096
        self._n_opened = 0
        self._streams: dict[int, DirectStream] = {}

    def connect(self, signer: Signer, on_prompt: Callable[[], None], auth_timeout_s: float) -> None:
        """`on_prompt` is called when a person must accept our key on the device, within `auth_timeout_s`."""
        try:
            self._transport.connect(PATIENCE_S)
        except _TRANSPORT_ERRORS as error:
            raise ConnectionLost(str(error)) from error
        self.send(CNXN, _VERSION_WITHOUT_SUMS, _MAX_DATA_BYTES, b"host::\0")
        command, first, second, token = self._receive_greeting(PATIENCE_S)
        if command == AUTH:
            self.send(AUTH, _AUTH_SIGNATURE, 0, signer.Sign(token))
            command, first, second, token = self._receive_greeting(PATIENCE_S)
        if command == AUTH:
            key = signer.GetPublicKey()
            self.send(AUTH, _AUTH_PUBLIC_KEY, 0, (key.encode() if isinstance(key, str) else key) + b"\0")
            on_prompt()
            try:
                command, first, second, token = self._receive_greeting(auth_timeout_s)
            except ConnectionLost:
                command = AUTH
        if command == AUTH:
            raise UserError(
                f"cannot use {self._name}: it does not accept this computer's key (~/.android/adbkey); unlock it, "
                "accept the prompt 'Allow USB debugging?' and call this again",
                Exit.DEVICE,
            )
        self._sums = first < _VERSION_WITHOUT_SUMS
        self.max_data_bytes = max(1, min(second, _MAX_DATA_BYTES))

    def _receive_greeting(self, timeout_s: float) -> tuple[int, int, int, bytes]:
        """CNXN: we are connected. AUTH: the device wants a signature of this token."""
        message = self._receive(timeout_s)
        if message is not None and message[0] == _STLS:
            raise UserError(
                f"cannot connect to {self._name}: it wants an encrypted connection (wireless debugging); pair it with "
                "Google's adb (adb pair, adb connect) and use --device adb:SERIAL",
                Exit.DEVICE,
            )
        if message is None or message[0] not in (CNXN, AUTH):
            raise ConnectionLost("it does not answer as an Android device does")
        return message

    def open(self, service: str) -> DirectStream:
        self._n_opened += 1
        stream = DirectStream(self, self._n_opened)
        self._streams[stream.local_id] = stream
        self.send(OPEN, stream.local_id, 0, service.encode(errors="surrogateescape") + b"\0")
        self.pump(PATIENCE_S, lambda: stream.may_send or stream.ended)
        if stream.ended:
            raise ServiceRefused(service)
        if not stream.may_send:
            raise ConnectionLost(f"the device did not answer within {PATIENCE_S:.0f} s")
        return stream

    def forget(self, stream: DirectStream) -> None:
        if self._streams.pop(stream.local_id, None) is not None and stream.remote_id and not stream.ended:
            stream.ended = True
            self.send(CLSE, stream.local_id, stream.remote_id)

    def close(self) -> None:
        self._streams.clear()
        self._transport.close()

    def pump(self, timeout_s: float, is_done: Callable[[], bool]) -> None:
        """Takes messages for all streams until `is_done` or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not is_done():
            message = self._receive(max(0.0, deadline - time.monotonic()))
            if message is None:
                return
            self._dispatch(*message)

    def _dispatch(self, command: int, remote_id: int, local_id: int, data: bytes) -> None:
        stream = self._streams.get(local_id)
        if stream is None:
            if command in (OKAY, WRTE):  # of a stream that we have closed
                self.send(CLSE, local_id, remote_id)
        elif command == OKAY:
            stream.remote_id, stream.may_send = remote_id, True
        elif command == WRTE:
            stream.inbox.append(data)
        elif command == CLSE:
            stream.ended = True
            if stream.remote_id:
                self.send(CLSE, local_id, stream.remote_id)

    def send(self, command: int, first: int, second: int, data: bytes = b"") -> None:
        checksum = sum(data) & 0xFFFFFFFF if self._sums else 0
        header = _HEADER.pack(command, first, second, len(data), checksum, command ^ 0xFFFFFFFF)
        try:
            self._transport.bulk_write(header, PATIENCE_S)
            if data:
                self._transport.bulk_write(data, PATIENCE_S)
        except _TRANSPORT_ERRORS as error:
            raise ConnectionLost(str(error)) from error

    def _receive(self, timeout_s: float) -> tuple[int, int, int, bytes] | None:
        """The next message, or None when none has begun in time."""
        start = self._read_some(_HEADER.size, timeout_s)
        if start is None:
            return None
        header = start + self._read_rest(_HEADER.size - len(start))
        command, first, second, length, _, inverted = _HEADER.unpack(header)
        if command ^ inverted != 0xFFFFFFFF or length > constants.MAX_ADB_DATA:
            raise ConnectionLost("it does not answer as an Android device does")
        return command, first, second, self._read_rest(length)

    def _read_some(self, size_bytes: int, timeout_s: float) -> bytes | None:
        try:
            return bytes(self._transport.bulk_read(size_bytes, timeout_s))
        except exceptions.TcpTimeoutException:
            return None
        except exceptions.UsbReadFailedError as error:
            if "TIMEOUT" in str(error):
                return None
            raise ConnectionLost(str(error)) from error
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def _read_rest(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            some = self._read_some(size_bytes - len(data), PATIENCE_S)
            if some is None:
                raise ConnectionLost("the device stopped in the middle of a message")
            data += some
        return bytes(data)
