"""The virtual phone: started, found, trained on, stopped; and what is said when memory runs out on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adb_devices import wait_for
from commands import SCRIPTS, daf_export

from daf.tools.adb.bundle import runners_folder

FREE_STEPS = 2


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> None:
    if shutil.which("qemu-system-aarch64") is None:
        pytest.skip("no emulator (Debian: apt-get install --no-install-recommends qemu-system-arm)")
    if not (runners_folder() / "linux-aarch64" / "daf_runner").exists():
        pytest.skip("no runner for arm64; build it with `make runner-arm64`")


class Computer:
    """One user of this computer: commands that find the phone which this test has started, and no other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
        for name in ("ANDROID_SERIAL", "ANDROID_ADB_SERVER_PORT", "ANDROID_ADB_SERVER_HOST"):
            self.environment.pop(name, None)

    def daf(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [SCRIPTS / "daf", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment)

    def start_phone(self, memory: str) -> str:
        done = self.daf("phone", "start", "--memory", memory)
        if "cannot get packages" in done.stderr:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        return done.stdout.rpartition("--device ")[2].strip()

    def machines(self) -> list[int]:
        """Processes of phones that belong to this user."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                environment = (entry / "environ").read_bytes() if b"qemu-system" in command else b""
            except OSError:  # it has ended meanwhile
                continue
            if f"XDG_RUNTIME_DIR={self.folder}\0".encode() in environment:
                found.append(int(entry.name))
        return found


@pytest.fixture
def computer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computer]:
    computer = Computer(tmp_path_factory.mktemp("p"))  # short: the name of a socket must be
    yield computer
    computer.daf("phone", "stop")
    assert computer.machines() == []


def is_listening(device: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(device.rpartition(":")[2]))) == 0


def listeners(port: int) -> list[str]:
    """Addresses, in hexadecimal, on which this computer listens at the port."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]


def rows_of(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


def export(program: Path, *options: object) -> dict[str, int]:
    """Returns the predicted memory."""
    done = daf_export(*options, "--optimizer", "sgd", "--lr", "0.01", "-o", program)
    assert done.returncode == 0, done.stderr
    memory: dict[str, int] = json.loads(program.with_suffix(".daf.json").read_text())["memory"]
    return memory


def test_train_on_it_as_on_any_phone(computer: Computer, cnn_program: Path, tmp_path: Path) -> None:
    device = computer.start_phone("96M")
    assert listeners(int(device.rpartition(":")[2])) == [f"0100007F:{int(device.rpartition(':')[2]):04X}"]
    again = computer.daf("phone", "start")
    assert again.returncode == 9
    assert "it runs already" in again.stderr

    status = computer.daf("phone", "status")
    assert (status.returncode, device in status.stdout) == (0, True)
    listed = {item["device"]: item for item in json.loads(computer.daf("devices", "--json").stdout)}
    assert listed[device]["platform"] == "linux-aarch64"
    assert 30e6 < listed[device]["ram_free_bytes"] < listed[device]["ram_bytes"] < 96 << 20

    trace = tmp_path / "phone.trace"
    done = computer.daf("run", cnn_program, "--steps", 2, "--device", "adb", "--trace", trace)
    assert done.returncode == 0, done.stderr
    counters = [row for row in rows_of(trace) if row["type"] == "counters"]
    assert all(0 < row["rss"] <= row["peak_rss"] < 20e6 < row["available"] < 96 << 20 for row in counters)

    assert computer.daf("phone", "stop").returncode == 0
    assert not is_listening(device)
    assert computer.daf("phone", "status").returncode == 1
    assert list(computer.folder.iterdir()) == []


def test_bad_sizes_are_refused(computer: Computer) -> None:
    done = computer.daf("phone", "start", "--memory", "16M")
    assert done.returncode == 2
    assert "64M to 64G" in done.stderr


def test_without_a_phone(computer: Computer) -> None:
    assert computer.daf("phone", "status").stdout == "not running\n"
    done = computer.daf("phone", "stop")
    assert (done.returncode, done.stderr) == (9, "error: there is no virtual phone to stop\n")


def test_says_what_to_install(computer: Computer) -> None:
    computer.environment["PATH"] = str(computer.folder)
    done = computer.daf("phone", "start")
    assert done.returncode == 9
    assert "apt-get install --no-install-recommends qemu-system-arm" in done.stderr


# ---- minutes each -----------------------------------------------------------------------------------------------


@pytest.mark.full
def test_ten_times_in_a_row_leaves_nothing(computer: Computer, cnn_program: Path) -> None:
    for _ in range(10):
        device = computer.start_phone("96M")
        done = computer.daf("run", cnn_program, "--steps", 1, "--device", device)
        assert done.returncode == 0, done.stderr
        assert computer.daf("phone", "stop").returncode == 0
        assert not is_listening(device)
        assert computer.machines() == []
        assert list(computer.folder.iterdir()) == []


@pytest.mark.full
def test_ends_with_its_parent(computer: Computer) -> None:
    code = (
        "import sys\nfrom daf.tools.phone.machine import Settings, open_phone\n"
        "with open_phone(Settings(96 << 20), lambda text: None) as device:\n"
        "    print(device, flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=computer.environment, **pipes) as parent:  # type: ignore[call-overload]
        device = parent.stdout.readline().strip()
        assert is_listening(device)
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not computer.machines(), "the machine to end")
    # Its port is closed a little after the process is no longer seen.
    wait_for(lambda: not is_listening(device), "its port to close")
    assert list(computer.folder.iterdir()) == []


@pytest.mark.full
def test_killed_for_memory(computer: Computer, cnn_program: Path, tmp_path: Path) -> None:
    program, trace = tmp_path / "large.pte", tmp_path / "large.trace"
    plan = export(program, "mlp_digits", "--set", "width=2048", "--batch-size", 4096)
    assert plan["peak"] > 90e6
    device = computer.start_phone("96M")
    done = computer.daf("run", program, "--steps", 1, "--device", device, "--trace", trace)
    assert done.returncode == 9
    assert "it may be killed" in done.stderr
    assert "the kernel killed it after step 0, because memory ran out" in done.stderr
    assert "export it with --activations daf and run it with --budget" in done.stderr
    event = rows_of(trace)[-1]
    assert (event["type"], event["event"]) == ("event", "killed_for_memory")
    assert 30e6 < event["own_bytes"] < 96 << 20
    assert computer.daf("report", trace).returncode == 0
    small = computer.daf("run", cnn_program, "--steps", 1, "--device", device)  # adbd has survived
    assert small.returncode == 0, small.stderr


@pytest.mark.full
def test_predicted_peak_is_what_the_phone_measures(computer: Computer, tmp_path: Path) -> None:
    models: dict[str, tuple[object, ...]] = {
        "cnn": ("cnn_digits", "--set", "width=32", "--batch-size", 1024),
        "mlp": ("mlp_digits", "--set", "width=1024", "--batch-size", 1024),
        "resnet": ("resnet18", "--set", "width=8", "--batch-size", 32),
        "resnet-daf": ("resnet18", "--set", "width=8", "--batch-size", 64, "--activations", "daf"),
        "vit": ("vit_tiny", "--set", "layers=2", "--batch-size", 16),
    }
    plans = {name: export(tmp_path / f"{name}.pte", *options) for name, options in models.items()}
    device = computer.start_phone("256M")
    errors = {}
    for name, plan in plans.items():
        trace = tmp_path / f"{name}.trace"
        options = ("--steps", FREE_STEPS, "--device", device, "--trace", trace, "--keep")
        done = computer.daf("run", tmp_path / f"{name}.pte", *options)
        assert done.returncode == 0, done.stderr
        rows = rows_of(trace)
        grown = rows[-1]["peak_rss_bytes"] - rows[0]["rss_baseline_bytes"]
        errors[name] = grown / plan["peak"] - 1
        print(
            f"{name}: predicted {plan['peak'] / 1e6:.1f} MB, measured {grown / 1e6:.1f} MB, {100 * errors[name]:+.1f} %"
        )
    assert all(abs(error) < 0.05 for error in errors.values()), errors
