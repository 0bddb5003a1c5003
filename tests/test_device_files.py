"""`daf devices`, `push`, `pull`, `install`, `logs` and `shell-env` on a real adbd."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from adb_devices import FOLDER, TestDevice, open_device
from commands import SCRIPTS

from daf.errors import Exit
from daf.manifest import manifest_path


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDevice]:
    with open_device(tmp_path_factory.mktemp("device")) as device:
        yield device


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_devices_are_listed_with_what_they_are(device: TestDevice) -> None:
    done = device.daf("devices", "--json", "--device", device.spec)
    assert done.returncode == 0, done.stderr
    local, other = json.loads(done.stdout)
    assert local["device"] == "local"
    assert other["device"] == device.spec
    assert other["platform"] == local["platform"] == "linux-x86_64"
    assert other["thermal"] == "41.5 °C"
    assert 0 < other["storage_free_bytes"] <= 1 << 30
    assert other["runner"] == ""
    text = device.daf("devices", "--device", device.spec).stdout
    assert f"device    {device.spec}" in text
    assert "runner    not installed" in text


def test_a_device_that_is_not_there_is_listed_with_the_reason(device: TestDevice) -> None:
    done = device.daf("devices", "--device", "adb:127.0.0.1:1")
    assert done.returncode == 0
    assert "state   cannot connect to adb:127.0.0.1:1" in done.stdout


def test_devices_of_an_adb_server(device: TestDevice) -> None:
    serial = device.spec.removeprefix("adb:")
    device.adb("connect", serial)
    try:
        listed = json.loads(device.daf("devices", "--json").stdout)
    finally:
        device.adb("kill-server")
    assert [item["device"] for item in listed] == ["local", device.spec]
    assert listed[1]["os"].startswith("Linux ")


def test_install_and_remove(device: TestDevice) -> None:
    done = device.daf("install", "--device", device.spec)
    assert done.returncode == 0, done.stderr
    try:
        listed = json.loads(device.daf("devices", "--json", "--device", device.spec).stdout)
        assert listed[1]["runner"] == "0.1.0"
        lines = device.daf("shell-env", "--device", device.spec).stdout.splitlines()
        assert f"export DAF_RUNNER={FOLDER}/runner/daf_runner" in lines
        assert f"export ANDROID_SERIAL={device.spec.removeprefix('adb:')}" in lines
    finally:
        assert device.daf("install", "--remove", "--device", device.spec).returncode == 0
    assert not device.folder.exists()


def test_push_by_content_takes_the_manifest_along(device: TestDevice, cnn_program: Path) -> None:
    for word in ("is", "was already"):
        done = device.daf("push", cnn_program, "--device", device.spec)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"{cnn_program} {word} {FOLDER}/files/{hash_of(cnn_program)}.pte",
            f"{manifest_path(cnn_program)} {word} {FOLDER}/files/{hash_of(manifest_path(cnn_program))}.json",
        ]


def test_push_into_a_folder_and_pull(device: TestDevice, tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in files:
        path.write_text(path.name)
    done = device.daf("push", *files, "--to", "/data/local/tmp", "--device", device.spec)
    assert done.returncode == 0, done.stderr
    done = device.daf("pull", "/data/local/tmp/b.txt", "-o", tmp_path / "c.txt", "--device", device.spec)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.txt").read_text() == "b.txt"


def test_pull_of_what_is_not_there_leaves_nothing(device: TestDevice, tmp_path: Path) -> None:
    done = device.daf("pull", "/data/none", "-o", tmp_path / "x", "--device", device.spec)
    assert done.returncode == Exit.DEVICE
    assert "cannot read /data/none" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_push_of_what_is_not_there(device: TestDevice, tmp_path: Path) -> None:
    done = device.daf("push", tmp_path / "none", "--device", device.spec)
    assert done.returncode == Exit.DATA
    assert "no such file" in done.stderr


def test_logs(device: TestDevice) -> None:
    done = device.daf("logs", "--device", device.spec)
    assert done.returncode == Exit.DEVICE
    assert "no logcat" in done.stderr
    logcat = device.root / "bin/logcat"
    logcat.write_text("#!/bin/sh\necho 1 I daf: one\necho 2 I other: two\necho 3 W lowmemorykiller: kill 7\n")
    logcat.chmod(0o755)
    try:
        assert device.daf("logs", "--device", device.spec).stdout.splitlines() == [
            "1 I daf: one",
            "3 W lowmemorykiller: kill 7",
        ]
        assert len(device.daf("logs", "--all", "--device", device.spec).stdout.splitlines()) == 3
    finally:
        logcat.unlink()


def peak_rss_bytes(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
    return usage.ru_maxrss * 1024, output


def test_200_mb_in_constant_memory(device: TestDevice, tmp_path: Path) -> None:
    """Prints the throughput beside that of Google's adb, on data that cannot be compressed."""
    small, large, back = (tmp_path / name for name in ("small", "large", "back"))
    small.write_bytes(os.urandom(1_000_000))
    large.write_bytes(os.urandom(200_000_000))
    target = "/data/local/tmp/large"

    def transfer(*arguments: object) -> tuple[int, str]:
        command = device.command(SCRIPTS / "daf", *arguments, "--device", device.spec)
        return peak_rss_bytes(command, device.environment)

    small_rss, _ = transfer("push", small, "--to", "/data/local/tmp/small")
    push_rss, pushed = transfer("push", large, "--to", target)
    pull_rss, pulled = transfer("pull", target, "-o", back)
    assert pushed.startswith("push large  200.0 MB  ")
    assert max(push_rss, pull_rss) < small_rss + 16_000_000
    assert hash_of(back) == hash_of(large)
    serial = device.spec.removeprefix("adb:")
    device.adb("connect", serial)
    try:
        adb_push = device.adb("-s", serial, "push", large, target).stdout
        adb_pull = device.adb("-s", serial, "pull", target, back).stdout
    finally:
        device.adb("kill-server")
        (device.root / target.removeprefix("/")).unlink()
    print(f"\n{pushed.splitlines()[0]}\n{pulled.splitlines()[0]}\n{adb_push}{adb_pull}")
    assert hash_of(back) == hash_of(large)
