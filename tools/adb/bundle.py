"""The runner for a device, as this installation has it: an executable and the libraries that go beside it."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from daf.errors import Exit, UserError

_NEEDS = "needs.txt"  # files of installed packages that belong to the bundle, by their place in site-packages
_HOW_TO_BUILD = {"linux-aarch64": "build it with `make runner-arm64`"}


@dataclass(frozen=True)
class Bundle:
    platform: str
    files: tuple[Path, ...]
    sha256: str

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files)


def runners_folder() -> Path:
    native = importlib.util.find_spec("daf._native")
    if native is None or native.origin is None:
        raise UserError("cannot find the runners: daf is not built; call `make build`", Exit.DEVICE)
    return Path(native.origin).parent / "runners"


def find_bundle(platform: str, device: str) -> Bundle:
    """`device` is for the message."""
    folder = runners_folder() / platform
    if not (folder / "daf_runner").is_file():
        built = ", ".join(sorted(path.parent.name for path in runners_folder().glob("*/daf_runner"))) or "none"
        raise UserError(
            f"cannot run on {device}: it is {platform or 'unknown'}, and this installation has runners for {built}; "
            f"{_HOW_TO_BUILD.get(platform) or f'build one for it (target daf_runner) and put it into {folder}'}",
            Exit.DEVICE,
        )
    files = sorted(path for path in folder.iterdir() if path.name != _NEEDS)
    needs = folder / _NEEDS
    if needs.exists():
        files += [_installed_file(name) for name in needs.read_text().split()]
    return Bundle(platform, tuple(files), _hash(files))


def _installed_file(name: str) -> Path:
    package = importlib.util.find_spec(name.partition("/")[0])
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder).parent / name
        if path.is_file():
            return path
    raise UserError(f"cannot find {name} of the runner; install the packages of daf-mobile again", Exit.DEVICE)


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hash_file(path).encode())
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
