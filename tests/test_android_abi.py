"""The engine of the app in Android's own ABI, under emulation: tools/check_android_abi.sh says what that shows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import daf

from daf.manifest import example_path, manifest_path
from daf.tools.apk.elf import read_library
from daf.tools.trace.summary import summarize

ROOT = Path(__file__).parents[1]
FOLDER = Path(sys.prefix) / "android-abi"  # what was compiled is kept there: minutes the first time, seconds then
NEEDS = {
    "clang++-19": "clang-19",
    "ld.lld-19": "lld-19",
    "javac": "openjdk-17-jdk-headless",
    "aarch64-linux-gnu-gcc": "g++-aarch64-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
    "glslc": "glslc",
    "/usr/lib/llvm-19/include/c++/v1/__config_site": "libc++-19-dev",
    "/usr/include/vulkan/vulkan.h": "libvulkan-dev",
    "/usr/include/volk.h": "libvulkan-volk-dev",
    "/usr/include/CL/cl.h": "opencl-headers",
}


def require_parts() -> None:
    for needed, package in NEEDS.items():
        if not Path(needed).exists() and shutil.which(needed) is None:
            pytest.skip(f"no {needed} (Debian: apt-get install {package})")
    if not (FOLDER / "parts").exists():
        pytest.skip("no prebuilt ExecuTorch for Android (call tools/setup.sh full)")


@pytest.mark.full
def test_trains_in_the_abi_of_android(cnn_program: Path, tmp_path: Path) -> None:
    require_parts()
    request = tmp_path / "request.json"
    paths = {"program": cnn_program, "manifest": manifest_path(cnn_program), "data": example_path(cnn_program)}
    paths["trace"] = tmp_path / "android.trace"
    request.write_text(json.dumps({"schema": 1, "steps": 20, **{name: str(path) for name, path in paths.items()}}))
    command = [ROOT / "tools/check_android_abi.sh", FOLDER, request]
    environment = {**os.environ, "PYTHON": sys.executable}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()  # the runner stops when its standard input ends: it stays open
    assert process.returncode == 0, said
    assert "functions of ExecuTorch are needed, and exported by the prebuilt one" in said
    library = read_library((FOLDER / "build/runtime_ops/jni/libdaf_jni.so").read_bytes())
    assert (library.abi, library.soname, library.page_bytes) == ("arm64-v8a", "libdaf_jni.so", 16384)
    # The app loads the engine's library alone; it pulls ExecuTorch's.
    assert library.needed == ("libexecutorch_jni.so", "libc++_shared.so")
    here = tmp_path / "here.trace"
    assert daf("run", cnn_program, "--steps", 20, "--trace", here).returncode == 0
    losses = [[loss for _, loss in summarize(trace).losses.points()] for trace in (here, paths["trace"])]
    assert len(losses[1]) == 20
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
