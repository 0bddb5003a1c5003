"""The file transfer of ADB: requests on a stream to the service `sync:`, none of which passes through a shell.

A request is four letters, a length and a path. File contents go in chunks `DATA`, length, bytes, and end with `DONE`.
"""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from daf.tools.adb.link import ConnectionLost, Link, Stream, StreamClosed, read_exactly

_WORD = struct.Struct("<I")
_CHUNK_BYTES = 64 << 10  # the protocol's limit
_CHUNKS_PER_WRITE = 15  # about the largest message of the protocol
_MAX_PATH_BYTES = 1024


class TransferFailed(Exception):
    """The device refused, in its own words: `couldn't create file: Permission denied`."""


@dataclass(frozen=True)
class FileStat:
    name: str
    mode: int
    size_bytes: int  # modulo 2^32: the protocol has no more

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Sync:
    """One request at a time, each on a stream of its own."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def push(
        self, source: BinaryIO, path: str, mode: int, on_progress: Callable[[int], None] = lambda n_bytes: None
    ) -> None:
        """`on_progress` gets the number of bytes of each part that was sent."""
        with _Request(self._link, b"SEND", f"{path},{stat.S_IFREG | mode}") as request:
            try:
                while not request.stream.has_input():  # else the device has something to complain about
                    chunks = [source.read(_CHUNK_BYTES) for _ in range(_CHUNKS_PER_WRITE)]
                    parts = [b"DATA" + _WORD.pack(len(chunk)) + chunk for chunk in chunks if chunk]
                    if not parts:
                        request.stream.write(b"DONE" + _WORD.pack(int(time.time()) & 0xFFFFFFFF))
                        break
                    request.stream.write(b"".join(parts))
                    on_progress(sum(map(len, chunks)))
            except StreamClosed:
                pass  # it says why before it closes
            request.expect(b"OKAY")
            request.word()

    def pull(self, path: str, target: BinaryIO, on_progress: Callable[[int], None] = lambda n_bytes: None) -> None:
        with _Request(self._link, b"RECV", path) as request:
            while request.expect(b"DATA", b"DONE") == b"DATA":
                data = request.take(request.word())
                target.write(data)
                on_progress(len(data))

    def stat(self, path: str) -> FileStat | None:
        """None when there is no such file."""
        with _Request(self._link, b"STAT", path) as request:
            request.expect(b"STAT")
            mode, size_bytes, _ = (request.word() for _ in range(3))
            return FileStat(path.rpartition("/")[2], mode, size_bytes) if mode else None

    def list(self, folder: str) -> list[FileStat]:
        """Empty when there is no such folder."""
        found = []
        with _Request(self._link, b"LIST", folder) as request:
            while request.expect(b"DENT", b"DONE") == b"DENT":
                mode, size_bytes, _, length = (request.word() for _ in range(4))
                name = request.take(length).decode(errors="surrogateescape")
                if name not in (".", ".."):
                    found.append(FileStat(name, mode, size_bytes))
        return found


class _Request:
    def __init__(self, link: Link, command: bytes, argument: str) -> None:
        data = argument.encode(errors="surrogateescape")
        if len(data) > _MAX_PATH_BYTES or b"\0" in data:
            raise TransferFailed(f"the path {argument!r:.60} is too long for a device")
        self._buffer = bytearray()
        self.stream: Stream = link.open("sync:")
        self.stream.write(command + _WORD.pack(len(data)) + data)

    def __enter__(self) -> _Request:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def take(self, size_bytes: int) -> bytes:
        return read_exactly(self.stream, size_bytes, self._buffer)

    def word(self) -> int:
        (value,) = _WORD.unpack(self.take(4))
        return int(value)

    def expect(self, *kinds: bytes) -> bytes:
        kind = self.take(4)
        if kind == b"FAIL":
            raise TransferFailed(self.take(self.word()).decode(errors="replace"))
        if kind not in kinds:
            raise ConnectionLost(f"the device answered {kind!r}")
        return kind
