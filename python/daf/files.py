"""Output files that are either complete or absent, and the errors of writing them."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from daf.errors import Exit, UserError

_NEXT_STEP = {
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
    errno.EROFS: "the folder is read-only; choose another one",
    errno.EACCES: "permission denied; choose a folder you may write to",
    errno.EPERM: "permission denied; choose a folder you may write to",
    errno.ENOENT: "its folder does not exist; create it first",
    errno.ENOTDIR: "part of its path is not a folder; choose another path",
    errno.EISDIR: "it is a folder; give a file name",
}


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`; when the block succeeds it is synced and renamed to `path`.

    After an error or a crash `path` is what it was before. The block only writes: an OSError in it is
    reported as a failure to write `path`.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o666 & ~_umask())
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        raise output_error(target, error) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def check_output(path: str | os.PathLike[str]) -> None:
    """Fails now, before any work is done, if a file could not be written to `path` later."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise output_error(target, error) from error


def output_error(path: Path, error: OSError) -> UserError:
    reason = _NEXT_STEP.get(error.errno or 0, f"{error.strerror or error}; choose another path")
    return UserError(f"cannot write {path}: {reason}", Exit.OUTPUT)


def _umask() -> int:
    """The process's umask, which can only be read by setting it. mkstemp ignores it and gives 0600."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable. Some file systems cannot sync a folder: then the file is still complete."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
