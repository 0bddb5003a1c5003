from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import daf, daf_export


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"needs root to mount a small disk: {mount.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture(scope="session")
def cnn_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cnn_digits, exported with SGD and momentum. Shared by all tests: copy what you change."""
    program = tmp_path_factory.mktemp("cnn_program") / "cnn.pte"
    done = daf_export("cnn_digits", "--optimizer", "sgd", "--batch-size", "32", "-o", program)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training split of the handwritten digits."""
    path = tmp_path_factory.mktemp("digits") / "train.safetensors"
    done = daf("data", "cnn_digits", "--split", "train", "-o", path)
    assert done.returncode == 0, done.stderr
    return path
