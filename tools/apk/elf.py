"""What an Android loader looks at first in a 64-bit shared library: its machine, its segments, what it needs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MACHINES = {62: "x86_64", 183: "arm64-v8a"}
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME = 1, 5, 14


class NotElf(Exception):
    """It is no library that Android could load; says why."""


@dataclass(frozen=True)
class Segment:
    kind: int
    offset: int
    address: int
    size: int
    align: int


@dataclass(frozen=True)
class Library:
    abi: str
    soname: str
    needed: tuple[str, ...]
    page_bytes: int  # the least alignment of what is loaded


def read_library(data: bytes) -> Library:
    try:
        return _read(data)
    except (struct.error, IndexError) as error:
        raise NotElf("it is truncated") from error


def _read(data: bytes) -> Library:
    if data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        raise NotElf("it is not a 64-bit little-endian ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 3 or machine not in _MACHINES:
        raise NotElf("it is not a shared library for arm64 or x86_64")
    segments = list(_segments(data))
    loaded = [segment for segment in segments if segment.kind == _LOAD]
    dynamic = next((segment for segment in segments if segment.kind == _DYNAMIC), None)
    if not loaded or dynamic is None:
        raise NotElf("it has no segments to load")
    tags = list(struct.iter_unpack("<qQ", data[dynamic.offset : dynamic.offset + dynamic.size // 16 * 16]))
    names_at = _file_offset(loaded, dict(tags)[_STRTAB])

    def name(at: int) -> str:
        return data[names_at + at : data.index(b"\0", names_at + at)].decode()

    return Library(
        abi=_MACHINES[machine],
        soname=next((name(value) for tag, value in tags if tag == _SONAME), ""),
        needed=tuple(name(value) for tag, value in tags if tag == _NEEDED),
        page_bytes=min(segment.align for segment in loaded),
    )


def _segments(data: bytes) -> Iterator[Segment]:
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _flags, offset, address, _physical, file_size, _size, align = struct.unpack_from(
            "<IIQQQQQQ", data, table + i * size
        )
        yield Segment(kind, offset, address, file_size, align)


def _file_offset(loaded: list[Segment], address: int) -> int:
    for segment in loaded:
        if segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise NotElf("its names are in no segment")
