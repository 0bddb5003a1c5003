"""`daf run --via app` on a real adbd. The app's service runs in a JVM of this machine, with the app's own logic and
engine; stand-ins for `am`, `pm` and `dumpsys` on the device take the place of Android's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest
from adb_devices import TestDevice, open_device, wait_for
from commands import daf
from java_app import java, native_libraries

from daf.errors import Exit
from daf.tools.adb.app import APP_FOLDER
from daf.tools.adb.facts import APP_PACKAGE
from daf.tools.trace.summary import summarize

VERSION = metadata.version("daf-mobile")
AM = """#!/bin/sh
[ -e /tmp/am ] || { echo "Error: Not found; no service started."; exit 0; }
name=/tmp/am/$$
for word in "$@"; do echo "$word"; done >$name.part
mv $name.part $name.command
echo "Starting service: Intent { act=... }"
"""
PM = """#!/bin/sh
case $1 in
  install) [ "$(head -c 2 "$4")" = PK ] || { echo "Failure [INSTALL_PARSE_FAILED_NOT_APK]"; exit 1; } ;;
  uninstall) rm -f /tmp/app-version ;;
esac
echo Success
"""
DUMPSYS = """#!/bin/sh
[ "$1" = package ] && [ -e /tmp/app-version ] && echo "    versionName=$(cat /tmp/app-version)"
"""


class Phone:
    """A device on which the app is installed and has been opened."""

    def __init__(self, device: TestDevice, classes: Path, libraries: Path) -> None:
        self.device = device
        self.folder = device.root / APP_FOLDER.removeprefix("/")
        self._classes, self._libraries = classes, libraries
        self._service: subprocess.Popen[str] | None = None
        for name, script in (("am", AM), ("pm", PM), ("dumpsys", DUMPSYS)):
            path = device.root / "bin" / name
            path.unlink(missing_ok=True)
            path.write_text(script)
            path.chmod(0o755)
        version = device.root / "tmp/app-version"
        version.write_text(VERSION)
        os.chown(version, 2000, 2000)  # the shell's
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o777)
        commands = device.root / "tmp/am"
        commands.mkdir()
        commands.chmod(0o777)

    def start_service(self) -> None:
        command = java(
            self._classes,
            f"-Djava.library.path={self._libraries}",
            "org.dafmobile.core.StandInService",
            *(APP_FOLDER.removeprefix("/"), "tmp/am", VERSION),
        )
        command = self.device.enter(*command)  # from the root of the device
        self._service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._service.stdout is not None
        line = self._service.stdout.readline()
        assert line == "ready\n", line + self._service.stdout.read()

    def kill_service(self) -> None:
        assert self._service is not None
        self._service.kill()
        self._service.communicate()
        self._service = None

    def close(self) -> None:
        if self._service is not None:
            self.kill_service()

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.device.daf("run", *arguments, "--via", "app", "--device", self.device.spec)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


@contextmanager
def open_phone(folder: Path, classes: Path) -> Iterator[Phone]:
    libraries = folder / "libraries"
    libraries.mkdir()
    native_libraries(libraries)
    os.umask(0o022)
    with open_device(folder) as device:
        phone = Phone(device, classes, libraries)
        try:
            yield phone
        finally:
            phone.close()


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory, app_classes: Path) -> Iterator[Phone]:
    with open_phone(tmp_path_factory.mktemp("phone"), app_classes) as phone:
        phone.start_service()
        yield phone


def losses(trace: Path) -> list[float]:
    return [loss for _, loss in summarize(trace).losses.points()]


def test_equals_a_run_on_this_machine(phone: Phone, cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    common = (cnn_program, "--data", digits, "--steps", 20, "--threads", 2, "--reduce", "cpu")
    done = daf("run", *common, "--save", here / "w.safetensors", "--trace", here / "run.trace")
    assert done.returncode == 0, done.stderr
    done = phone.run(*common, "--save", there / "w.safetensors", "--trace", there / "run.trace")
    assert done.returncode == 0, done.stderr
    assert "step 20/20" in done.stdout
    assert losses(there / "run.trace") == losses(here / "run.trace")
    for name in ("w.safetensors", "w.optim-20.safetensors"):
        assert (there / name).read_bytes() == (here / name).read_bytes()
    header = summarize(there / "run.trace").header
    assert (header.device["kind"], header.config["reduce"]) == ("app", "cpu")
    assert phone.files() == []


def test_resumes_and_keeps(phone: Phone, cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    for resume in ((), ("--resume", weights)):
        done = phone.run(
            *(cnn_program, "--data", digits, "--steps", 5, "--save", weights, "--trace", trace, "--keep", *resume)
        )
        assert done.returncode == 0, done.stderr
    assert [step for step, _ in summarize(trace).losses.points()] == [6, 7, 8, 9, 10]
    kept = phone.files()
    assert len(kept) == 3
    assert all(name.startswith("files/") for name in kept)
    shutil.rmtree(phone.folder / "files")


def test_thermal_status_is_in_the_trace(phone: Phone, cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    process = start_long_run(phone, cnn_program, "--trace", trace)
    wait_for(lambda: '"event":"thermal"' in trace.read_text(), "the thermal status")
    process.send_signal(signal.SIGINT)
    process.communicate()
    events = [json.loads(line) for line in trace.read_text().splitlines() if '"thermal"' in line]
    assert events[0]["status"] == "light"


def start_long_run(phone: Phone, program: Path, *arguments: object) -> subprocess.Popen[str]:
    spec = phone.device.spec
    process = phone.device.start_daf(
        *("run", program, "--steps", 100_000_000, "--via", "app", "--device", spec, *arguments)
    )
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step "):
        assert line, process.stderr.read() if process.stderr else ""
    return process


def test_interrupt_stops_the_run_in_the_app(phone: Phone, cnn_program: Path, tmp_path: Path) -> None:
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    process = start_long_run(phone, cnn_program, "--save", weights, "--trace", trace)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.INTERRUPTED, errors
    assert "interrupted after step" in errors
    assert weights.exists()
    assert "incomplete: stopped" in summarize(trace).condition
    assert phone.files() == []


def test_the_app_goes_on_when_the_connection_breaks(phone: Phone, cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    process = start_long_run(phone, cnn_program, "--trace", trace)
    assert process.stderr is not None
    phone.device.kill("adbd")
    assert "the app goes on; connecting again" in "".join(process.stderr.readline() for _ in range(2))
    size = trace.stat().st_size
    wait_for(lambda: trace.stat().st_size > size, "steps after the break")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.INTERRUPTED, errors
    rows = map(json.loads, trace.read_text().splitlines())  # a summary has every second step from some number on
    steps = [row["step"] for row in rows if row["type"] == "step"]
    assert steps == list(range(1, len(steps) + 1))


def test_what_the_session_refuses(phone: Phone, cnn_program: Path, tmp_path: Path) -> None:
    """The error is the session's own, as `daf run` prints it here; only the program lies elsewhere."""
    done = phone.run(cnn_program, "--steps", 1, "--budget", "1kB")
    local = daf("run", cnn_program, "--steps", 1, "--budget", "1kB")
    assert done.returncode == local.returncode != 0
    assert done.stderr.partition(".pte")[2] == local.stderr.partition(".pte")[2] != ""
    assert phone.files() == []


def test_one_run_at_a_time(phone: Phone, cnn_program: Path) -> None:
    process = start_long_run(phone, cnn_program)
    done = phone.run(cnn_program, "--steps", 1)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert done.returncode == Exit.USAGE
    assert "is running; stop it first" in done.stderr


def test_hostile_requests_by_the_shell(phone: Phone, tmp_path: Path) -> None:
    """What anybody with the shell can do: the app refuses, and writes nothing but the status."""
    secret = phone.device.root / "data/secret.pte"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("secret")
    envelope = {"format": "daf-app-request", "schema": 1, "daf_version": VERSION, "threads": None}
    inner = {"schema": 1, "program": "x.pte", "manifest": "x.json", "data": "x", "steps": 1}
    requests = {
        "traversal": {**envelope, "request": {**inner, "program": "../../../../../data/secret.pte"}},
        "output": {**envelope, "request": {**inner, "save": "../../../../../data/w.safetensors"}},
        "huge": {**envelope, "request": {**inner, "steps": 10**30}},
        "unknown": {**envelope, "request": {**inner, "shell": "id"}},
    }
    texts = {name: json.dumps(request) for name, request in requests.items()} | {"cut": json.dumps(envelope)[:40]}
    for name in ("x.pte", "x.json", "x"):
        (phone.folder / name).touch()
    before = sorted(path.name for path in secret.parent.iterdir())
    for name, text in texts.items():
        run = phone.folder / "runs" / name
        run.mkdir(parents=True)
        (run / "request.json").write_text(text)
        extras = ("--es", "request", f"runs/{name}/request.json")
        phone.device.adb("connect", phone.device.spec.removeprefix("adb:"))
        command = ("am", "start-foreground-service", "-n", "x/.RunService", "-a", f"{APP_PACKAGE}.RUN", *extras)
        phone.device.adb("shell", *command)
        status = run / "status.json"
        wait_for(status.exists, f"the answer to {name}")
        answer = json.loads(status.read_text())
        assert (answer["state"], answer["code"]) == ("failed", Exit.USAGE), name
        assert answer["error"].startswith("cannot "), name
    phone.device.adb("kill-server")
    assert sorted(path.name for path in secret.parent.iterdir()) == before
    left = [name for name in phone.files() if name not in ("x.pte", "x.json", "x")]
    assert {Path(name).name for name in left} == {"request.json", "status.json"}
    for name in ("x.pte", "x.json", "x"):
        (phone.folder / name).unlink()
    shutil.rmtree(phone.folder / "runs")


def test_a_service_that_dies(tmp_path: Path, app_classes: Path, cnn_program: Path) -> None:
    with open_phone(tmp_path, app_classes) as phone:
        phone.start_service()
        trace = tmp_path / "run.trace"
        process = start_long_run(phone, cnn_program, "--trace", trace)
        phone.kill_service()
        _, errors = process.communicate()
        assert process.returncode == Exit.DEVICE
        assert "has given no sign of life since step" in errors
        assert summarize(trace).n_steps > 0


def test_without_the_app(tmp_path: Path, app_classes: Path, cnn_program: Path) -> None:
    with open_phone(tmp_path, app_classes) as phone:
        version = phone.device.root / "tmp/app-version"
        apk = tmp_path / "check.apk"
        apk.write_bytes(b"PK")
        done = phone.device.daf("install", "--via", "app", "--apk", apk, "--device", phone.device.spec)
        assert done.returncode == 0, done.stderr
        apk.write_bytes(b"no")
        done = phone.device.daf("install", "--via", "app", "--apk", apk, "--device", phone.device.spec)
        assert done.returncode == Exit.DEVICE
        assert "INSTALL_PARSE_FAILED_NOT_APK" in done.stderr

        version.write_text("0.0.9")
        done = phone.run(cnn_program, "--steps", 1)
        assert (done.returncode, "its app is of daf 0.0.9" in done.stderr) == (Exit.DEVICE, True)
        version.write_text(f"{VERSION}-check")
        shutil.rmtree(phone.device.root / "tmp/am")
        done = phone.run(cnn_program, "--steps", 1)
        assert (done.returncode, "no service started" in done.stderr) == (Exit.DEVICE, True)
        shutil.rmtree(phone.folder)
        done = phone.run(cnn_program, "--steps", 1)
        assert (done.returncode, "open the app once" in done.stderr) == (Exit.DEVICE, True)
        done = phone.device.daf("install", "--via", "app", "--remove", "--device", phone.device.spec)
        assert done.returncode == 0, done.stderr
        done = phone.run(cnn_program, "--steps", 1)
        assert (done.returncode, "the app is not installed" in done.stderr) == (Exit.DEVICE, True)


def test_usage(cnn_program: Path, tmp_path: Path) -> None:
    assert daf("run", cnn_program, "--steps", 1, "--via", "app").returncode == Exit.USAGE
    assert daf("install", "--via", "app").returncode == Exit.USAGE
    assert daf("install", "--apk", tmp_path / "x.apk").returncode == Exit.USAGE
    assert daf("install", "--via", "app", "--apk", tmp_path / "none.apk").returncode == Exit.DATA
