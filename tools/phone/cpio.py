"""Archives as the kernel unpacks them into its first file system: cpio, the format `newc`."""

from __future__ import annotations

import stat


class Cpio:
    """Every entry: a header of 8-digit hexadecimal fields, the name and a NUL, the data; each padded to 4 bytes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._n_entries = 0

    def add_folder(self, name: str) -> None:
        self._add(name, b"", stat.S_IFDIR | 0o755)

    def add_file(self, name: str, data: bytes, mode: int) -> None:
        self._add(name, data, stat.S_IFREG | mode)

    def add_device(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._add(name, b"", stat.S_IFCHR | 0o600, (major, minor))

    def data(self) -> bytes:
        """Of the whole archive; nothing may be added after this."""
        self._add("TRAILER!!!", b"", 0)
        return bytes(self._data)

    def _add(self, name: str, data: bytes, mode: int, device: tuple[int, int] = (0, 0)) -> None:
        self._n_entries += 1
        encoded = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, major and minor of the disk and of the device, name size, check
        fields = (self._n_entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        self._data += b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (encoded, data):
            self._data += part
            self._data += bytes(-len(self._data) % 4)
