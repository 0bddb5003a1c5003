"""Compiles the app's logic and its tests, which need no Android, and runs them in a JVM."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

APP = Path(__file__).parents[1] / "android/app"
JUNIT = [Path("/usr/share/java/junit4.jar"), Path("/usr/share/java/hamcrest-core.jar")]


def require_java() -> None:
    if shutil.which("javac") is None:
        pytest.skip("no javac (Debian: apt-get install openjdk-17-jdk-headless)")
    for jar in JUNIT:
        if not jar.exists():
            pytest.skip(f"no {jar.name} (Debian: apt-get install junit4)")


def compile_core(folder: Path) -> Path:
    """The logic and all of its tests. Java 8's library is what Android has since version 8."""
    require_java()
    classes = folder / "classes"
    sources = [*(APP / "src/main/java/org/dafmobile/core").glob("*.java"), *(APP / "src/test/java").rglob("*.java")]
    command = ["javac", "--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options", "-Werror", "-d", classes]
    done = subprocess.run([*command, "-cp", os.pathsep.join(map(str, JUNIT)), *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return classes


def java(classes: Path, *words: object) -> list[str]:
    """A command: options of the JVM, a class and its arguments.

    The drivers of OpenCL and Vulkan for a CPU bring LLVM, which takes the signals that the JVM itself needs, and the
    JVM dies. With libjsig before them both get theirs; Android's runtime does so by itself.
    """
    machine = shutil.which("java")
    assert machine is not None
    signals = Path(machine).resolve().parents[1] / "lib/libjsig.so"
    found = os.pathsep.join(map(str, [classes, *JUNIT]))
    return ["env", f"LD_PRELOAD={signals}", machine, "-Xss1m", "-cp", found, *map(str, words)]


def native_libraries(folder: Path) -> Path:
    """The engine for this machine and what it needs, in one folder."""
    from daf.tools.adb.bundle import find_bundle, runners_folder

    engine = runners_folder().parent / "jni/libdaf_jni.so"
    if not engine.exists():
        pytest.skip("the engine of the app is not built: no jni.h (Debian: apt-get install openjdk-17-jdk-headless)")
    for path in (engine, *find_bundle(f"linux-{platform.machine()}", "this machine").files):
        if path.name != "daf_runner":
            shutil.copy(path, folder)
    return folder
