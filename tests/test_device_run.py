"""`daf run --device adb` on a real adbd: the same training as here, and every way in which it can go wrong."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from adb_devices import FOLDER, TestDevice, open_device, wait_for
from commands import daf
from safetensors import safe_open

from daf.errors import Exit
from daf.manifest import example_path, manifest_path
from daf.tools.adb.bundle import find_bundle
from daf.tools.trace.rows import Step
from daf.tools.trace.summary import summarize


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDevice]:
    """Shared by the tests of this module, with the runner installed."""
    with open_device(tmp_path_factory.mktemp("device")) as device:
        done = device.daf("install", "--device", device.spec)
        assert done.returncode == 0, done.stderr
        yield device


def losses(trace: Path) -> list[float]:
    return [loss for _, loss in summarize(trace).losses.points()]


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def step_of(checkpoint: Path) -> int:
    with safe_open(checkpoint, framework="numpy") as file:
        return int(file.metadata()["step"])


def assert_clean(device: TestDevice) -> None:
    """Nothing runs, and nothing is left but the runner."""
    assert device.processes("daf_runner") == []
    left = [path.name for path in device.folder.rglob("*") if path.is_file() and path.parent.name != "runner"]
    assert left == []


def start_long_run(device: TestDevice, program: Path, *arguments: object) -> subprocess.Popen[str]:
    """A run that will not end by itself, after its first steps."""
    process = device.start_daf("run", program, "--steps", 100_000_000, "--device", device.spec, *arguments)
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step "):
        assert line, process.stderr.read() if process.stderr else ""
    return process


# ---- what works --------------------------------------------------------------------------------------------------


def test_equals_a_run_on_this_machine(device: TestDevice, cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    for kind in ("local", device.spec):
        folder = tmp_path / kind.partition(":")[0]
        folder.mkdir()
        done = device.daf(
            *("run", cnn_program, "--data", digits, "--steps", 20, "--device", kind),
            *("--save", folder / "w.safetensors", "--trace", folder / "run.trace"),
        )
        assert done.returncode == 0, done.stderr
    here, there = tmp_path / "local", tmp_path / "adb"
    assert losses(there / "run.trace") == losses(here / "run.trace")
    assert hash_of(there / "w.safetensors") == hash_of(here / "w.safetensors")
    assert hash_of(there / "w.optim-20.safetensors") == hash_of(here / "w.optim-20.safetensors")
    compared = daf(
        "compare", here / "run.trace", there / "run.trace", "--fail-if", "loss > 1x", "--fail-if", "peak > 1x"
    )
    assert compared.returncode == 0, compared.stdout
    assert "different device: local" in compared.stdout
    assert_clean(device)


def test_tune_leaves_the_table_where_runs_look(device: TestDevice, tmp_path: Path) -> None:
    refused = device.daf("tune", "--device", device.spec, "--software")
    assert refused.returncode == Exit.DEVICE
    assert f"cannot tune {device.spec}: no GPU can be used there" in refused.stderr
    assert_clean(device)

    # No driver is there. What a runner with one does, test_reduce.py shows; here is what the host makes of it.
    runner = device.folder / "runner" / "daf_runner"
    real = runner.rename(runner.with_name("real"))
    try:
        rows = [
            {"type": "tuned", "size": 4096},
            {"type": "table", "device": "GPU"},
            {"type": "exit", "code": 0, "error": None},
        ]
        says = "".join(f"echo '{json.dumps(row)}'\n" for row in rows)
        runner.write_text(f"#!/bin/sh\n[ $1 = --tune ] || exec $(dirname $0)/real $1\necho '{{}}' > $2\n{says}")
        runner.chmod(0o755)
        done = device.daf("tune", "--device", device.spec, "-o", tmp_path / "table.json")
        assert done.returncode == 0, done.stderr
    finally:
        real.rename(runner)
    assert "4,096 values" in done.stdout
    assert f"wrote {FOLDER}/reduce.json on {device.spec} for GPU" in done.stdout
    assert (tmp_path / "table.json").read_text() == "{}\n"
    table = device.folder / "reduce.json"
    assert table.read_text() == "{}\n"
    table.unlink()


def test_progress_shows_loss_memory_and_temperature(device: TestDevice, cnn_program: Path) -> None:
    done = device.daf("run", cnn_program, "--steps", 2, "--device", device.spec)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("step 2/2"))
    assert "loss " in line
    assert "RSS " in line
    assert line.endswith("42 °C")


def test_resumes_bit_for_bit(device: TestDevice, cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    common = ("run", cnn_program, "--data", digits, "--device", device.spec)
    whole, part = tmp_path / "whole" / "w.safetensors", tmp_path / "part" / "w.safetensors"
    for path in (whole, part):
        path.parent.mkdir()
    assert device.daf(*common, "--steps", 6, "--save", whole).returncode == 0
    assert device.daf(*common, "--steps", 3, "--save", part).returncode == 0
    done = device.daf(*common, "--steps", 3, "--resume", part, "--save", part)
    assert done.returncode == 0, done.stderr
    assert hash_of(part) == hash_of(whole)
    assert sorted(path.name for path in part.parent.iterdir()) == ["w.optim-6.safetensors", "w.safetensors"]


def test_keep_and_skip_by_hash(device: TestDevice, cnn_program: Path, digits: Path) -> None:
    common = ("run", cnn_program, "--data", digits, "--steps", 1, "--device", device.spec)
    assert device.daf(*common, "--keep").returncode == 0
    kept = {path: path.stat().st_mtime_ns for path in (device.folder / "files").iterdir()}
    assert {path.suffix for path in kept} == {".pte", ".json", ".safetensors"}
    assert device.daf(*common).returncode == 0  # uses them, and leaves what it did not bring
    assert {path: path.stat().st_mtime_ns for path in (device.folder / "files").iterdir()} == kept
    shutil.rmtree(device.folder / "files")


def test_a_runner_that_was_not_installed_is_removed(cnn_program: Path, tmp_path: Path) -> None:
    with open_device(tmp_path) as device:
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
        assert done.returncode == 0, done.stderr
        assert not device.folder.exists()


EVIL = "a b'c\"d $(touch owned) `touch owned`;touch owned\\"


def test_names_are_never_interpreted(device: TestDevice, cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    folder = tmp_path / EVIL
    folder.mkdir()
    program = folder / f"{EVIL}.pte"
    for find in (lambda path: path, manifest_path, example_path):
        shutil.copy(find(cnn_program), find(program))
    data = Path(shutil.copy(digits, folder / f"{EVIL}.safetensors"))
    weights, trace = folder / f"w{EVIL}.safetensors", folder / f"t{EVIL}"
    common = ("run", program, "--data", data, "--device", device.spec, "--save", weights, "--trace", trace)
    assert device.daf(*common, "--steps", 2).returncode == 0
    done = device.daf(*common, "--steps", 2, "--resume", weights)
    assert done.returncode == 0, done.stderr
    assert step_of(weights) == 4
    assert len(losses(trace)) == 2
    target = f"/data/local/tmp/{EVIL}"
    assert device.daf("push", data, "--to", target, "--device", device.spec).returncode == 0
    assert (device.root / target.removeprefix("/")).read_bytes() == data.read_bytes()
    done = device.daf("pull", target, "-o", tmp_path / "back", "--device", device.spec)
    assert done.returncode == 0, done.stderr
    assert hash_of(tmp_path / "back") == hash_of(data)
    (device.root / target.removeprefix("/")).unlink()
    assert list(device.root.rglob("owned")) == []
    assert_clean(device)


def test_through_an_adb_server(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    """Google's adb holds the device: we go through its server, and both see the same files."""
    serial = device.spec.removeprefix("adb:")
    assert "connected" in device.adb("connect", serial).stdout
    try:
        trace = tmp_path / "run.trace"
        done = device.daf("run", cnn_program, "--steps", 2, "--device", "adb", "--trace", trace, "--keep")
        assert done.returncode == 0, done.stderr
        assert summarize(trace).complete
        listed = device.adb("-s", serial, "shell", f"ls {FOLDER}/files").stdout.split()
        assert f"{hash_of(cnn_program)}.pte" in listed
        assert device.adb("-s", serial, "pull", f"{FOLDER}/files/{hash_of(cnn_program)}.pte", tmp_path).returncode == 0
        assert hash_of(tmp_path / f"{hash_of(cnn_program)}.pte") == hash_of(cnn_program)
    finally:
        device.adb("kill-server")
        shutil.rmtree(device.folder / "files")


# ---- versions ----------------------------------------------------------------------------------------------------


def test_a_runner_of_another_version_is_refused(device: TestDevice, cnn_program: Path) -> None:
    info = device.folder / "runner/info.json"
    original = info.read_text()
    try:
        info.write_text(json.dumps({**json.loads(original), "daf_version": "0.0.9"}))
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
    finally:
        info.write_text(original)
    assert done.returncode == Exit.DEVICE
    assert "its runner is of daf 0.0.9" in done.stderr
    assert f"daf install --device {device.spec}" in done.stderr


def test_a_program_of_another_version_is_refused(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    program = Path(shutil.copy(cnn_program, tmp_path))
    shutil.copy(example_path(cnn_program), tmp_path)
    document = json.loads(manifest_path(cnn_program).read_text())
    manifest_path(program).write_text(json.dumps({**document, "daf_version": "0.0.1"}))
    done = device.daf("run", program, "--steps", 1, "--device", device.spec)
    assert done.returncode == Exit.PROGRAM
    assert "made by daf 0.0.1" in done.stderr
    assert "daf-export" in done.stderr


# ---- interruption ------------------------------------------------------------------------------------------------


def test_interrupt_stops_the_run_on_the_device(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    process = start_long_run(device, cnn_program, "--save", weights, "--trace", trace)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.INTERRUPTED, errors
    assert f"interrupted after step {step_of(weights)}; {weights} holds step {step_of(weights)}" in errors
    assert "incomplete: stopped" in summarize(trace).condition
    assert_clean(device)


def test_interrupt_while_pushing_leaves_nothing(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    small = load_file(example_path(cnn_program))
    data = tmp_path / "large.safetensors"
    save_file({name: array.repeat(20_000, axis=0) for name, array in small.items()}, data)
    process = device.start_daf("run", cnn_program, "--data", data, "--steps", 1, "--device", device.spec)
    wait_for(lambda: any(device.folder.glob("files/*.safetensors.*.part")), "the push to begin")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == Exit.INTERRUPTED
    assert_clean(device)


def test_a_host_that_is_killed_leaves_no_process(device: TestDevice, cnn_program: Path) -> None:
    process = start_long_run(device, cnn_program)
    process.kill()
    process.communicate()
    device.wait_until_gone("daf_runner")
    shutil.rmtree(device.folder / "runs")
    shutil.rmtree(device.folder / "files")


# ---- faults ------------------------------------------------------------------------------------------------------


def test_runner_killed(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    process = start_long_run(device, cnn_program, "--trace", trace)
    device.kill("daf_runner")
    _, errors = process.communicate()
    assert process.returncode == Exit.DEVICE
    assert "was killed after step" in errors
    assert "memory" in errors
    summary = summarize(trace)
    assert summary.n_steps > 0
    assert not summary.complete
    assert "without a footer" in summary.condition
    assert_clean(device)


@pytest.mark.parametrize("through_server", [False, True])
def test_adbd_killed_in_mid_run(
    device: TestDevice, cnn_program: Path, digits: Path, tmp_path: Path, through_server: bool
) -> None:
    if through_server:
        assert "connected" in device.adb("connect", device.spec.removeprefix("adb:")).stdout
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    try:
        process = start_long_run(device, cnn_program, "--data", digits, "--save", weights, "--trace", trace)
        device.kill("adbd")
        _, errors = process.communicate()
    finally:
        if through_server:
            device.adb("kill-server")
    assert process.returncode == Exit.DEVICE, errors
    assert f"continue with --resume {weights}" in errors
    assert summarize(trace).footer is not None
    assert len(losses(trace)) > 0
    assert_clean(device)
    step = step_of(weights)
    last = tmp_path / "last.trace"
    done = device.daf(
        *("run", cnn_program, "--data", digits, "--steps", 1, "--device", device.spec),
        *("--resume", weights, "--save", weights, "--trace", last),
    )
    assert done.returncode == 0, done.stderr
    assert step_of(weights) == step + 1


def test_adbd_killed_in_mid_push(device: TestDevice, tmp_path: Path) -> None:
    source = tmp_path / "large"
    source.write_bytes(bytes(range(256)) * 800_000)
    process = device.start_daf("push", source, "--device", device.spec)

    def begun() -> bool:
        parts = list(device.folder.glob("files/*.part"))
        return bool(parts) and parts[0].stat().st_size > 1_000_000

    wait_for(begun, "the push to begin")
    device.kill("adbd")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "trying again" in errors
    assert hash_of(device.folder / "files" / hash_of(source)) == hash_of(source)
    shutil.rmtree(device.folder / "files")


def test_a_runner_that_hangs(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    process = start_long_run(device, cnn_program, "--trace", trace)
    device.kill("daf_runner", signal.SIGSTOP)
    _, errors = process.communicate()
    assert process.returncode == Exit.DEVICE
    assert "no sign of life" in errors
    assert summarize(trace).n_steps > 0
    assert_clean(device)


def test_device_that_does_not_come_back(cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    with open_device(tmp_path) as device:
        process = start_long_run(device, cnn_program, "--trace", trace)
        shown = trace.stat().st_size
        device.kill("sh")  # what would start adbd again
        device.kill("adbd")
        _, errors = process.communicate()
        assert process.returncode == Exit.DEVICE
        assert "could not be restored" in errors
        assert "daf pull" in errors
        assert f"{trace} holds the trace up to then" in errors
        assert trace.stat().st_size >= shown > 0
        assert summarize(trace).n_steps > 0
        device.wait_until_gone("daf_runner")


def test_storage_that_is_full_before(cnn_program: Path, tmp_path: Path) -> None:
    with open_device(tmp_path, data_bytes=5_000_000) as device:
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
        assert done.returncode == Exit.OUTPUT
        assert "No space left on device; free some storage on the device" in done.stderr
        assert not device.folder.exists()


def test_storage_that_fills_up(cnn_program: Path, tmp_path: Path) -> None:
    """The trace grows until there is no room: what was written is pulled."""
    trace = tmp_path / "run.trace"
    runner_bytes = find_bundle(f"linux-{platform.machine()}", "this machine").size_bytes
    with open_device(tmp_path, data_bytes=runner_bytes + 1_000_000) as device:
        done = device.daf("run", cnn_program, "--steps", 10**7, "--device", device.spec, "--trace", trace)
        assert done.returncode == Exit.OUTPUT
        assert "no space left on the device" in done.stderr
        assert summarize(trace).n_steps > 10
        assert device.processes("daf_runner") == []
        assert not device.folder.exists()


def test_wrong_abi(device: TestDevice, cnn_program: Path) -> None:
    uname = device.root / "bin/uname"
    original = uname.readlink()
    uname.unlink()
    uname.write_text("#!/bin/sh\ncase $1 in -m) echo riscv64;; -s) echo Linux;; *) echo 6.1;; esac\n")
    uname.chmod(0o755)
    try:
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
    finally:
        uname.unlink()
        uname.symlink_to(original)
    assert done.returncode == Exit.DEVICE
    assert "it is linux-riscv64, and this installation has runners for linux-" in done.stderr


def test_a_runner_that_cannot_be_executed(cnn_program: Path, tmp_path: Path) -> None:
    with open_device(tmp_path) as device:
        subprocess.run(device.enter("mount", "-o", "remount,noexec", "data/local/tmp"), check=True)
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
        assert done.returncode == Exit.DEVICE
        assert "cannot start the runner" in done.stderr
        assert "ermission denied" in done.stderr
        assert not device.folder.exists()


def test_no_permission(cnn_program: Path, tmp_path: Path) -> None:
    with open_device(tmp_path) as device:
        (device.root / "data/local/tmp").chmod(0o555)
        done = device.daf("run", cnn_program, "--steps", 1, "--device", device.spec)
        assert done.returncode == Exit.OUTPUT
        assert f"cannot write {FOLDER}/files on {device.spec}: it is not allowed" in done.stderr


def test_clock_skew(cnn_program: Path, tmp_path: Path) -> None:
    """The device lives in 1980: nothing compares its clock with ours."""
    trace = tmp_path / "run.trace"
    with open_device(tmp_path, skew_s=-1_400_000_000) as device:
        done = device.daf("run", cnn_program, "--steps", 3, "--device", device.spec, "--trace", trace)
        assert done.returncode == 0, done.stderr
    summary = summarize(trace)
    assert summary.header.started_unix_ms < 1_000_000_000_000
    assert summary.complete
    assert "by the device's clock" in daf("report", trace).stdout


def test_two_devices_and_no_serial(cnn_program: Path, tmp_path: Path) -> None:
    with open_device(tmp_path, ports=(6000, 6002)) as device:
        for port in (6000, 6002):
            device.adb("connect", f"127.0.0.1:{port}")
        done = device.daf("run", cnn_program, "--steps", 1, "--device", "adb")
        assert done.returncode == Exit.DEVICE
        assert "cannot choose a device: there are 2 (127.0.0.1:6000, 127.0.0.1:6002)" in done.stderr
        done = device.daf("run", cnn_program, "--steps", 1, "--device", "adb", ANDROID_SERIAL="127.0.0.1:6002")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("adb:127.0.0.1:1", "cannot connect to adb:127.0.0.1:1: "),
        ("adb:none", "cannot find the device none (there: none)"),
        ("adb", "cannot find a device: none on USB, and no adb server is running"),
        ("usb:123", "cannot find the device 123"),
    ],
)
def test_no_such_device(device: TestDevice, cnn_program: Path, spec: str, message: str) -> None:
    done = device.daf("run", cnn_program, "--steps", 1, "--device", spec)
    assert done.returncode == Exit.DEVICE
    assert message in done.stderr


def test_a_device_that_means_nothing(cnn_program: Path) -> None:
    done = daf("run", cnn_program, "--steps", 1, "--device", "phone")
    assert done.returncode == Exit.USAGE
    assert "write local, qemu, adb, adb:SERIAL" in done.stderr


def test_step_rows_have_the_types_of_the_reader(device: TestDevice, cnn_program: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    assert device.daf("run", cnn_program, "--steps", 2, "--device", device.spec, "--trace", trace).returncode == 0
    summary = summarize(trace)
    assert isinstance(summary.last_step, Step)
    assert summary.header.device["kind"] == "runner"
    assert summary.temperature_mc == 41_500
