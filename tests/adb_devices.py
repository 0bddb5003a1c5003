"""A device for the tests: Google's adbd in namespaces of its own, with an Android-like shell and file system.

Commands that talk to it, ours and Google's adb, run in its network namespace, in which there is nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from commands import SCRIPTS

IMAGE = Path(sys.prefix) / "adbd"
FOLDER = "/data/local/tmp/daf"
PATIENCE_S = 60.0


class TestDevice:
    __test__ = False  # not a test, whatever its name

    def __init__(self, process: subprocess.Popen[str], chroot: Path, home: Path, ports: tuple[int, ...]) -> None:
        self._process = process
        self._chroot = chroot
        self._pid = _first_child(process.pid)
        self._ports = ports
        self.environment = {**os.environ, "HOME": str(home), "ANDROID_USER_HOME": str(home / ".android")}
        for name in ("ANDROID_SERIAL", "ANDROID_ADB_SERVER_PORT", "ANDROID_ADB_SERVER_HOST"):
            self.environment.pop(name, None)

    @property
    def spec(self) -> str:
        return f"adb:127.0.0.1:{self._ports[0]}"

    @property
    def root(self) -> Path:
        """Its file system, as it sees it."""
        return Path(f"/proc/{self._pid}/root") / self._chroot.relative_to("/")

    @property
    def folder(self) -> Path:
        """Where daf keeps its files."""
        return self.root / FOLDER.removeprefix("/")

    def command(self, *words: object) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._pid}/ns/net", *map(str, words)]

    def enter(self, *words: object) -> list[str]:
        """A command of this machine that sees the device's mounts, from the root of its file system."""
        code = 'cd "$0" && exec "$@"'
        return ["nsenter", f"--mount=/proc/{self._pid}/ns/mnt", "sh", "-c", code, str(self._chroot), *map(str, words)]

    def daf(self, *arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **options}
        return subprocess.run(
            self.command(SCRIPTS / "daf", *arguments), capture_output=True, text=True, env=environment
        )

    def start_daf(self, *arguments: object) -> subprocess.Popen[str]:
        command = self.command(SCRIPTS / "daf", *arguments)
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment, bufsize=1
        )

    def adb(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Google's adb, which starts its server in the device's network."""
        from adbutils import adb_path

        command = self.command(adb_path(), *arguments)
        return subprocess.run(command, capture_output=True, text=True, env=self.environment)

    def processes(self, name: str = "") -> list[int]:
        """Ids, as this machine sees them, of what runs on the device."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or (entry / "ns/pid").readlink() != self._pid_namespace:
                    continue
                if name in (entry / "comm").read_text():
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
        return sorted(found)

    @property
    def _pid_namespace(self) -> Path:
        return Path(f"/proc/{self._pid}/ns/pid").readlink()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        pids = [pid for pid in self.processes(name) if pid != self._pid]  # all would end with the first process
        assert pids, f"no {name} is running"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_until_gone(self, name: str) -> None:
        wait_for(lambda: not self.processes(name), f"{name} to end")

    def wait_until_listening(self) -> None:
        code = f"import socket; [socket.create_connection(('127.0.0.1', p), 1) for p in {self._ports}]"
        command = self.command(sys.executable, "-c", code)
        wait_for(lambda: subprocess.run(command, capture_output=True).returncode == 0, "adbd to listen")

    def close(self) -> None:
        self.adb("kill-server")
        self._process.kill()
        self._process.wait()


@contextmanager
def open_device(
    folder: Path, *, data_bytes: int = 1 << 30, ports: tuple[int, ...] = (6000,), skew_s: int = 0
) -> Iterator[TestDevice]:
    """`skew_s`: how far its clock is ahead of ours."""
    if not (IMAGE / "usr/lib/android-sdk/platform-tools/adbd").exists():
        pytest.skip(f"no adbd in {IMAGE}; get it with tools/get_adbd.sh {IMAGE}")
    for tool in ("unshare", "nsenter", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: apt-get install util-linux iproute2)")
    root, home = folder / "root", folder / "home"
    root.mkdir()
    home.mkdir()
    init = Path(__file__).parent / "device_init.sh"
    skew = _build_skew(folder, skew_s) if skew_s else "-"
    process = subprocess.Popen(
        [
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            init,
            root,
            IMAGE,
            skew,
            str(data_bytes),
        ]
        + [str(port) for port in ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline().strip() != "ready":
        process.kill()
        pytest.skip(f"needs root to make namespaces: {process.stderr.read().strip()}")
    device = TestDevice(process, root, home, ports)
    try:
        device.wait_until_listening()
        yield device
    finally:
        device.close()


def wait_for(condition: object, what: str) -> None:
    """Looks until it is so; a test that would wait for ever fails."""
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what} in vain"
        time.sleep(0.02)


def _build_skew(folder: Path, skew_s: int) -> str:
    """A library that changes what programs see of the clock."""
    source, library = folder / "skew.cpp", folder / "skew.so"
    source.write_text(
        "#include <dlfcn.h>\n#include <time.h>\n"
        'extern "C" int clock_gettime(clockid_t id, timespec* now) noexcept {\n'
        '  static auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));\n'
        f"  const int result = real(id, now);\n  if (id == CLOCK_REALTIME) now->tv_sec += {skew_s};\n"
        "  return result;\n}\n"
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", source, "-o", library], check=True)
    return str(library)


def _first_child(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])
