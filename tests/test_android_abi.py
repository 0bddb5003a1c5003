"""The engine of the app, compiled and linked for Android's own ABI: tools/check_android_abi.sh says what that shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daf.tools.apk.elf import read_library

ROOT = Path(__file__).parents[1]


@pytest.mark.full
def test_compiles_and_links_for_android() -> None:
    for command, package in (
        ("clang++-19", "clang-19"),
        ("ld.lld-19", "lld-19"),
        ("npm", "npm"),
        ("javac", "openjdk-17-jdk-headless"),
    ):
        if shutil.which(command) is None:
            pytest.skip(f"no {command} (Debian: apt-get install {package})")
    if not Path("/usr/lib/llvm-19/include/c++/v1").exists():
        pytest.skip("no libc++ (Debian: apt-get install libc++-19-dev)")
    folder = Path(sys.prefix) / "android-abi"
    done = subprocess.run(
        [ROOT / "tools/check_android_abi.sh", folder],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning:" not in done.stderr
    print(done.stdout)
    library = read_library((folder / "libdaf_jni.so").read_bytes())
    assert (library.abi, library.soname, library.page_bytes) == ("arm64-v8a", "libdaf_jni.so", 16384)
    # Only the engine's own library is loaded by the app; it pulls ExecuTorch's.
    assert library.needed == ("libexecutorch_jni.so", "libc++_shared.so")
