"""The runner by itself: what it prints, and when it stops."""

from __future__ import annotations

import json
import signal
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from daf.errors import Exit
from daf.manifest import example_path, manifest_path


def start(runner: Path, request: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [runner, request], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def write_request(folder: Path, program: Path, steps: int) -> Path:
    path = folder / "request.json"
    paths = {"program": program, "manifest": manifest_path(program), "data": example_path(program)}
    paths |= {"trace": folder / "run.trace", "save": folder / "w.safetensors"}
    path.write_text(json.dumps({"schema": 1, "steps": steps, **{name: str(value) for name, value in paths.items()}}))
    return path


def rows_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_says_what_it_is(runner: Path) -> None:
    done = subprocess.run([runner, "--version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    hello = json.loads(done.stdout)
    assert (hello["format"], hello["daf_version"]) == ("daf-runner", metadata.version("daf-mobile"))


def test_lines_are_those_of_the_trace(runner: Path, cnn_program: Path, tmp_path: Path) -> None:
    with start(runner, write_request(tmp_path, cnn_program, 3)) as process:
        assert process.stdout is not None
        rows = rows_of(process.stdout.read())
    assert rows[0]["type"] == "hello"
    assert rows[-1] == {"type": "exit", "code": 0, "error": None}
    of_trace = [row for row in rows[1:-1] if row["type"] != "alive"]
    assert of_trace == rows_of((tmp_path / "run.trace").read_text())
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["interrupted", "left alone"])
def test_stops_after_its_step_and_saves(runner: Path, cnn_program: Path, tmp_path: Path, how: str) -> None:
    with start(runner, write_request(tmp_path, cnn_program, 10**9)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["type"] != "step":
            pass
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.close()  # as when the host or the connection is gone
        for line in process.stdout:
            last = json.loads(line)
    footer = rows_of((tmp_path / "run.trace").read_text())[-1]
    assert footer["reason"] == "stopped"
    assert (tmp_path / "w.safetensors").exists()
    if how == "interrupted":  # a host that is gone is told nothing more
        assert last == {"type": "exit", "code": 0, "error": None}


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", Exit.USAGE, "cannot read the run request"),
        ("{", Exit.USAGE, "cannot read the run request"),
        ('{"schema": 2}', Exit.USAGE, "use the same version of daf on both sides"),
        (
            '{"schema": 1, "program": "no.pte", "manifest": "no.json", "data": "no", "steps": 1}',
            Exit.PROGRAM,
            "cannot use the manifest no.json",
        ),
    ],
)
def test_errors_are_in_the_last_line(runner: Path, tmp_path: Path, text: str, code: Exit, message: str) -> None:
    request = tmp_path / "request.json"
    request.write_text(text)
    with start(runner, request) as process:
        assert process.stdout is not None
        last = rows_of(process.stdout.read())[-1]
    assert (last["type"], last["code"], process.returncode) == ("exit", code, code)
    assert message in last["error"]


def test_usage(runner: Path) -> None:
    done = subprocess.run([runner], capture_output=True, text=True)
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("usage: daf_runner")
