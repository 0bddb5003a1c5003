from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from daf.errors import Exit, UserError
from daf.files import atomic_write, check_output


def test_writes_the_file_with_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "out") as file:
        file.write(b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with atomic_write(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


def test_an_error_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(target) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("write", [lambda path: atomic_write(path).__enter__(), check_output])
@pytest.mark.parametrize(
    ("path", "reason"),
    [("folder", "it is a folder"), ("nowhere/out", "its folder does not exist"), ("file/out", "is not a folder")],
)
def test_impossible_paths(tmp_path: Path, write, path: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=reason) as caught:
        write(tmp_path / path)
    assert caught.value.exit_code == Exit.OUTPUT
    assert str(tmp_path / path) in str(caught.value)


def test_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    target = small_disk / "out"
    target.write_bytes(b"old")
    with pytest.raises(UserError, match="the disk is full") as caught, atomic_write(target) as file:
        file.write(bytes(1_000_000))
    assert caught.value.exit_code == Exit.OUTPUT
    assert target.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["out"]


def test_read_only_disk(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(UserError, match="read-only") as caught:
        check_output(small_disk / "out")
    assert caught.value.exit_code == Exit.OUTPUT
