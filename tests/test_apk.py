"""`daf apk build`, and what its checks find."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from commands import daf

from daf.errors import Exit, UserError
from daf.tools.apk.checks import check_libraries
from daf.tools.apk.elf import NotElf, read_library
from daf.tools.apk.package import LIBRARY_PAGE_BYTES, add_entry
from daf.tools.apk.toolchain import find_toolchain


def library(folder: Path, name: str, *options: str) -> Path:
    """A shared library for x86_64 that needs what `options` say, and nothing else."""
    path = folder / name
    source = folder / "empty.cpp"
    source.write_text('extern "C" int answer() { return 42; }')
    pages = [] if any("page-size" in option for option in options) else ["-Wl,-z,max-page-size=16384"]
    command = ["g++", "-shared", "-fPIC", "-nostdlib", *pages, "-Wl,--no-as-needed", f"-Wl,-soname,{name}"]
    subprocess.run([*command, source, "-o", path, *options], check=True)
    return path


def archive(folder: Path, *libraries: Path, abi: str = "x86_64") -> Path:
    apk = folder / "check.apk"
    with zipfile.ZipFile(apk, "w") as file:
        for path in libraries:
            add_entry(file, f"lib/{abi}/{path.name}", path.read_bytes(), compress=False)
    return apk


def test_builds_and_checks(tmp_path: Path) -> None:
    try:
        find_toolchain()
    except UserError as error:
        pytest.skip(str(error))
    libraries = tmp_path / "libraries"
    (libraries / "x86_64").mkdir(parents=True)
    needed = library(libraries / "x86_64", "libneeded.so")
    library(libraries / "x86_64", "libdaf_jni.so", str(needed))
    (libraries / "x86_64/empty.cpp").unlink()
    apk = tmp_path / "daf-check.apk"
    done = daf("apk", "build", "--libraries", libraries, "-o", apk)
    assert done.returncode == 0, done.stderr
    for line in (
        "signature   v2 and v3",
        "no network",
        "says that it is a check build",
        "all components among them",
        "zipalign has nothing to say",
        "x86_64: libdaf_jni.so, libneeded.so; 16 KB pages, nothing they need is missing",
        f"wrote {apk}",
    ):
        assert line in done.stdout
    with zipfile.ZipFile(apk) as file:
        assert {"AndroidManifest.xml", "classes.dex", "resources.arsc", "lib/x86_64/libdaf_jni.so"} <= set(
            file.namelist()
        )


def test_a_name_that_does_not_say_check(tmp_path: Path) -> None:
    done = daf("apk", "build", "-o", tmp_path / "daf-release.apk")
    assert done.returncode == Exit.USAGE
    assert "it is no release" in done.stderr


def test_a_folder_without_libraries(tmp_path: Path) -> None:
    done = daf("apk", "build", "--libraries", tmp_path, "-o", tmp_path / "check.apk")
    assert done.returncode == Exit.CHECK_FAILED
    assert "it has no libraries" in done.stderr


def test_small_pages_are_found(tmp_path: Path) -> None:
    small = library(tmp_path, "libsmall.so", "-Wl,-z,max-page-size=4096")
    with pytest.raises(UserError, match="lib/x86_64/libsmall.so is aligned to 4096 bytes, not to 16 KB pages"):
        list(check_libraries(archive(tmp_path, small)))


def test_missing_libraries_are_found(tmp_path: Path) -> None:
    needed = library(tmp_path, "libmissing.so")
    needs = library(tmp_path, "libneeds.so", str(needed))
    with pytest.raises(UserError, match="libneeds.so needs libmissing.so, which neither the APK nor the system has"):
        list(check_libraries(archive(tmp_path, needs)))
    assert "nothing they need is missing" in next(check_libraries(archive(tmp_path, needs, needed)))


def test_another_abi_is_found(tmp_path: Path) -> None:
    path = library(tmp_path, "libx.so")
    with pytest.raises(UserError, match="lib/arm64-v8a/libx.so is for x86_64"):
        list(check_libraries(archive(tmp_path, path, abi="arm64-v8a")))


def test_libraries_that_cannot_be_mapped_are_found(tmp_path: Path) -> None:
    path, apk = library(tmp_path, "libx.so"), tmp_path / "check.apk"
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(apk, "w", method) as file:
            file.write(path, "lib/x86_64/libx.so")
        with pytest.raises(UserError, match="not stored at a 16 KB page"):
            list(check_libraries(apk))


def test_what_is_read_of_a_library(tmp_path: Path) -> None:
    data = library(tmp_path, "libx.so", str(library(tmp_path, "liby.so"))).read_bytes()
    found = read_library(data)
    assert (found.abi, found.soname, found.needed) == ("x86_64", "libx.so", ("liby.so",))
    assert found.page_bytes == LIBRARY_PAGE_BYTES
    for wrong in (b"", b"PK\3\4", data[:5], data[:40], data[:200], b"\x7fELF\x01\x01" + data[6:]):
        with pytest.raises(NotElf):
            read_library(wrong)
