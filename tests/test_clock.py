"""A clock that jumps: the time of day goes a year forward and back with every look at it, and nothing takes notice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adb_devices import open_device
from commands import SCRIPTS, daf
from test_runner import rows_of, write_request

YEAR_S = 365 * 24 * 3600
SHIM = f"""
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long looks;

int clock_gettime(clockid_t clock, struct timespec* now) {{
  const int result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
    now->tv_sec += looks++ % 2 ? -{YEAR_S}L : {YEAR_S}L;
  return result;
}}
int gettimeofday(struct timeval* now, void* zone) {{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  now->tv_sec = t.tv_sec;
  now->tv_usec = t.tv_nsec / 1000;
  return 0;
}}
time_t time(time_t* now) {{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (now) *now = t.tv_sec;
  return t.tv_sec;
}}
"""


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What to add to the environment of a process whose clock is to jump."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed (Debian: apt-get install gcc)")
    library = tmp_path_factory.mktemp("clock") / "jumping.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=SHIM, text=True, check=True)
    return {"LD_PRELOAD": str(library)}


def daf_with(environment: dict[str, str], *arguments: object) -> None:
    command = [SCRIPTS / "daf", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr


def check_times(rows: list[dict[str, Any]], steps: int) -> None:
    """They rise, add up, and are those of a short run."""
    times = [row["t_us"] for row in rows if row["type"] in ("step", "counters", "footer")]
    assert times == sorted(times)
    of_steps = [row for row in rows if row["type"] == "step"]
    assert len(of_steps) == steps
    assert all(0 < row["total_us"] <= row["t_us"] for row in of_steps)
    assert sum(row["total_us"] for row in of_steps) <= rows[-1]["t_us"] < 1e6 * YEAR_S / 100
    assert (rows[-1]["type"], rows[-1]["completed"]) == ("footer", True)


def losses(path: Path) -> list[float]:
    return [row["loss"] for row in rows_of(path.read_text()) if row["type"] == "step"]


def test_a_run_on_this_machine(jumping: dict[str, str], cnn_program: Path, tmp_path: Path) -> None:
    """Trained, saved and resumed as with a good clock, to the bit."""
    plain, first, second, weights = (tmp_path / name for name in ("plain", "first", "second", "w.safetensors"))
    assert daf("run", cnn_program, "--steps", 4, "--trace", plain).returncode == 0
    daf_with(jumping, "run", cnn_program, "--steps", 2, "--trace", first, "--save", weights)
    daf_with(jumping, "run", cnn_program, "--steps", 2, "--trace", second, "--resume", weights, "--save", weights)
    for trace in (first, second):
        check_times(rows_of(trace.read_text()), 2)
    started = [json.loads(path.read_text().partition("\n")[0])["clock"]["started_unix_ms"] for path in (plain, first)]
    assert abs(started[1] - started[0]) > 1000 * YEAR_S / 2, "the clock did jump"
    assert losses(first) + losses(second) == losses(plain)
    daf_with(jumping, "report", first)


def test_the_runner(jumping: dict[str, str], runner: Path, cnn_program: Path, tmp_path: Path) -> None:
    command = [runner, write_request(tmp_path, cnn_program, 3)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **jumping}
    ) as process:
        assert process.stdout is not None
        process.stdout.read()
    assert process.returncode == 0
    check_times(rows_of((tmp_path / "run.trace").read_text()), 3)


def test_a_run_on_a_device(jumping: dict[str, str], cnn_program: Path, tmp_path: Path) -> None:
    """The host's clock jumps: no time-out of the connection takes it for silence."""
    trace = tmp_path / "run.trace"
    with open_device(tmp_path) as device:
        done = device.daf("run", cnn_program, "--steps", 3, "--device", device.spec, "--trace", trace, **jumping)
        assert done.returncode == 0, done.stderr
    check_times(rows_of(trace.read_text()), 3)
