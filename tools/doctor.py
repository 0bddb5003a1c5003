"""`daf doctor`: what is installed, what works, what is missing and how to get it."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click

from daf.errors import Exit
from daf.text import format_bytes, format_table

MIN_DISK_BYTES = 1_000_000_000
MIN_MEMORY_BYTES = 1_000_000_000

# Runs in a process of its own: a native module that does not fit its libraries may abort.
_PROBE = """
import json
import numpy as np
from daf import native
x = np.ones(1000, dtype=np.float32)
y = native.dropout(x, 0.5, 0, 0, 0)
assert set(np.unique(y)) == {0.0, 2.0}, "dropout(0.5) of ones must give zeros and twos"
names = native.operator_names()
n_daf = sum(name.startswith("daf::") for name in names)
print(json.dumps({"version": native.__version__, "isa": native.current_isa(), "daf": n_daf, "all": len(names)}))
"""


# Also by itself: a driver may be worse than missing.
_PROBE_GPU = """
import json
from daf import native
print(json.dumps(native.reduce_devices()))
"""
_GPU_FIXES = {
    "vulkan": "install your GPU's driver; to try without a GPU: apt-get install mesa-vulkan-drivers",
    "opencl": "install your GPU's driver; to try without a GPU: apt-get install pocl-opencl-icd",
}


@dataclass(frozen=True)
class Check:
    name: str
    status: str  # ok, missing or broken
    detail: str
    fix: str = ""
    essential: bool = False

    @property
    def fails(self) -> bool:
        return self.essential and self.status != "ok"

    def row(self) -> tuple[str, str, str]:
        optional = "" if self.essential or self.status == "ok" else " (optional)"
        return self.name, self.status + optional, self.detail


@click.command(short_help="Say what is installed, what works and what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check this installation. Exit code 1 if something essential is missing or broken.

    \b
    Examples:
      daf doctor
      daf doctor --json
    """
    checks = list(run_checks())
    failed = any(check.fails for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": not failed, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        click.echo(format_table([check.row() for check in checks]))
        for check in checks:
            if check.fix:
                click.echo(f"to get {check.name}: {check.fix}")
    ctx.exit(Exit.CHECK_FAILED if failed else Exit.OK)


def run_checks() -> Iterator[Check]:
    yield Check("python", "ok", platform.python_version(), essential=True)
    for package in ("torch", "executorch", "numpy", "safetensors", "perfetto", "adb-shell", "adbutils"):
        yield _check_package(package, "pip install daf-mobile", essential=True)
    for package in ("transformers", "peft"):
        yield _check_package(package, "pip install 'daf-mobile[zoo]'", essential=False)
    yield _check_native()
    yield from _check_gpu()
    yield from _check_compiler()
    adb = shutil.which("adb")
    yield Check("adb", "ok", adb) if adb else Check("adb", "missing", "to watch phones", "apt-get install adb")
    for tool, package, purpose in (
        ("qemu-aarch64-static", "qemu-user-static", "to train as arm64"),
        ("qemu-system-aarch64", "qemu-system-arm", "for virtual phones"),
    ):
        found = shutil.which(tool)
        yield Check(package, "ok", found) if found else Check(package, "missing", purpose, f"apt-get install {package}")
    yield _check_room("disk", shutil.disk_usage(Path.cwd()).free, MIN_DISK_BYTES)
    yield _check_room("memory", _available_memory_bytes(), MIN_MEMORY_BYTES)


def _check_package(name: str, fix: str, essential: bool) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "missing", "", fix, essential)
    pinned = _pinned_version(name)
    if pinned and version.partition("+")[0] != pinned:
        detail = f"{version} is installed, {pinned} is needed"
        return Check(name, "broken", detail, f"pip install {name}=={pinned}", essential)
    return Check(name, "ok", version, essential=essential)


def _pinned_version(name: str) -> str | None:
    for requirement in metadata.requires("daf-mobile") or []:
        package, equals, version = requirement.partition(";")[0].partition("==")
        if equals and package.partition("[")[0].strip() == name:
            return version.strip()
    return None


def _check_native() -> Check:
    name, fix = "daf native module", "make build, or pip install --force-reinstall daf-mobile"
    probe = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if probe.returncode != 0:
        lines = probe.stderr.strip().splitlines() or [f"it ended with code {probe.returncode}"]
        return Check(name, "broken", lines[-1], fix, essential=True)
    found = json.loads(probe.stdout)
    detail = f"{found['version']}, ran a kernel of {found['isa']}; {found['daf']} daf operators of {found['all']}"
    if found["version"] != metadata.version("daf-mobile"):
        return Check(name, "broken", f"{detail}; the package is {metadata.version('daf-mobile')}", fix, essential=True)
    return Check(name, "ok", detail, essential=True)


def _check_gpu() -> Iterator[Check]:
    probe = subprocess.run([sys.executable, "-c", _PROBE_GPU], capture_output=True, text=True)
    if probe.returncode != 0:
        lines = probe.stderr.strip().splitlines() or [f"it ended with code {probe.returncode}"]
        yield Check("GPU drivers", "broken", lines[-1], "remove the driver that fails, or use --reduce cpu")
        return
    for device in json.loads(probe.stdout):
        backend = device["backend"]
        if device["reason"]:
            yield Check(backend, "missing", device["reason"], _GPU_FIXES[backend])
            continue
        subgroups = f"subgroups of {device['subgroup_size']}" if device["subgroup_size"] else "no subgroups"
        memory = "shares memory" if device["can_share"] else "copies memory"
        use = "a GPU, used by --reduce auto"
        if device["is_software"]:
            use = f"this CPU, only used by --reduce {backend}"
        yield Check(backend, "ok", f"{device['name']}: {use}; {subgroups}, {memory}")


def _check_compiler() -> Iterator[Check]:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()
        yield Check("C++ compiler", "ok", version[0] if version else compiler)
        preprocess = [compiler, "-E", "-x", "c++", "-"]
        found = subprocess.run(preprocess, input=b"#include <gtest/gtest.h>", capture_output=True).returncode == 0
    else:
        yield Check("C++ compiler", "missing", "to build from source", "apt-get install g++")
        found = False
    if found:
        yield Check("GoogleTest", "ok", "headers found")
    else:
        yield Check("GoogleTest", "missing", "for the C++ tests", "apt-get install libgtest-dev")


def _check_room(name: str, free_bytes: int, needed_bytes: int) -> Check:
    detail = f"{format_bytes(free_bytes)} free"
    if free_bytes >= needed_bytes:
        return Check(name, "ok", detail)
    return Check(name, "missing", f"{detail}, large models need {format_bytes(needed_bytes)}", f"free some {name}")


def _available_memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
