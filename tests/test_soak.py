"""Long runs, many runs, and runs that end at any moment: a short form of each, and the long one in `make test-full`."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from commands import daf_export
from safetensors import safe_open
from safetensors.numpy import load_file

from daf import native
from daf.manifest import example_path, manifest_path
from daf.tools.trace.summary import summarize

N_SESSIONS = 8


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("soak") / "cnn.pte"
    done = daf_export(
        "cnn_digits", "--batch-size", 64, "--optimizer", "sgd", "--momentum", 0.9, "--activations", "daf", "-o", path
    )
    assert done.returncode == 0, done.stderr
    return path


def open_session(program: Path) -> tuple[native.Session, list[np.ndarray]]:  # type: ignore[type-arg]
    batch = load_file(example_path(program))
    names = [tensor["name"] for tensor in _manifest(program)["methods"]["train_step"]["inputs"]]
    return native.Session(str(program), str(manifest_path(program))), [batch[name] for name in names]


def _manifest(program: Path) -> dict:  # type: ignore[type-arg]
    return json.loads(manifest_path(program).read_text())  # type: ignore[no-any-return]


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("n_steps", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_memory_stays_flat(program: Path, n_steps: int) -> None:
    """With random budgets; what a step holds at its end is what it held long before."""
    session, batch = open_session(program)
    memory = _manifest(program)["memory"]
    fixed = memory["arena"] + memory["workspace"]
    chance = random.Random(1)
    after: list[int] = []
    for step in range(n_steps):
        if chance.random() < 0.2:
            session.trim(fixed + chance.randint(memory["pool"] // 4, 2 * memory["pool"]))
        assert math.isfinite(session.step(batch))
        if step >= n_steps // 4:
            after.append(_rss_bytes())
    half = len(after) // 2
    assert max(after[half:]) - max(after[:half]) < 1 << 20


@pytest.mark.parametrize("n_kills", [6, pytest.param(100, marks=pytest.mark.full)])
def test_killed_at_any_moment(runner: Path, program: Path, tmp_path: Path, n_kills: int) -> None:
    """Every checkpoint that is there is whole and resumes; every trace can be read."""
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    request = {
        "schema": 1,
        "program": str(program),
        "manifest": str(manifest_path(program)),
        "data": str(example_path(program)),
        "steps": 1_000_000,
        "save": str(weights),
        "save_every": 1,
        "trace": str(trace),
    }
    chance = random.Random(2)
    n_resumed = 0
    for _ in range(n_kills):
        resume = str(weights) if weights.exists() else None
        (tmp_path / "request.json").write_text(json.dumps({**request, "resume": resume}))
        before = _step_of(weights)
        process = subprocess.Popen(
            [runner, tmp_path / "request.json"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL, "it had to be killed: whatever was left behind could be used"
        assert _step_of(weights) >= before
        n_resumed += resume is not None
        if trace.exists() and trace.stat().st_size:
            summarize(trace)
    assert n_resumed > 0
    session, batch = open_session(program)
    session.restore(str(weights))
    assert session.step_count == _step_of(weights)
    assert math.isfinite(session.step(batch))
    assert len(list(tmp_path.glob("w.safetensors.optim-*"))) <= 2  # that of the checkpoint, and one that was being made


def _step_of(weights: Path) -> int:
    """0 without a checkpoint."""
    if not weights.exists():
        return 0
    with safe_open(weights, framework="numpy") as file:
        return int(file.metadata()["step"])


def _losses(program: Path, n_steps: int = 10) -> list[float]:
    session, batch = open_session(program)
    return [session.step(batch) for _ in range(n_steps)]


def test_sessions_beside_each_other_do_not_disturb(program: Path) -> None:
    expected = _losses(program)
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda: found.append(_losses(program))) for _ in range(N_SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * N_SESSIONS
    with ProcessPoolExecutor(N_SESSIONS, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(_losses, [program] * N_SESSIONS)) == [expected] * N_SESSIONS
