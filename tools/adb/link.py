"""What the rest of the package needs of a connection: streams to services of the device, and what can go wrong."""

from __future__ import annotations

from typing import Protocol

PATIENCE_S = 20.0  # for an answer that is due


class ConnectionLost(Exception):
    """The device or the adb server no longer answers. Connecting again may help."""


class ServiceRefused(Exception):
    """The device does not offer this service."""


class StreamClosed(Exception):
    """The device closed the stream that we were writing to; what it sent before can still be read."""


class Stream(Protocol):
    def read(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        """Some bytes; b"" at the end; None when nothing came in time."""

    def write(self, data: bytes) -> None: ...

    def has_input(self) -> bool:
        """Whether something can be read at once, the end included."""

    def close(self) -> None: ...


class Link(Protocol):
    def open(self, service: str) -> Stream: ...

    def close(self) -> None: ...


def read_exactly(stream: Stream, size_bytes: int, buffer: bytearray) -> bytes:
    """Takes `size_bytes` from the stream; `buffer` keeps what came with them for the next call."""
    while len(buffer) < size_bytes:
        data = stream.read()
        if data is None:
            raise ConnectionLost(f"no answer within {PATIENCE_S:.0f} s")
        if not data:
            raise ConnectionLost("the connection was closed")
        buffer += data
    taken = bytes(buffer[:size_bytes])
    del buffer[:size_bytes]
    return taken
