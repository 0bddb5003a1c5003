"""`daf run` as a user meets it: what it prints, what it writes, and how it refuses bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import SCRIPTS, daf
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from daf.errors import Exit
from daf.manifest import example_path, manifest_path


@pytest.fixture
def program(cnn_program: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    for path in (cnn_program, manifest_path(cnn_program), example_path(cnn_program)):
        shutil.copy(path, tmp_path)
    return tmp_path / cnn_program.name


@pytest.fixture(scope="session")
def checkpoint(cnn_program: Path, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights and optimizer state after 3 steps. Shared by all tests: copy the folder if you change it."""
    path = tmp_path_factory.mktemp("checkpoint") / "w.safetensors"
    done = daf("run", cnn_program, "--data", digits, "--steps", 3, "--save", path)
    assert done.returncode == 0, done.stderr
    return path


def step_of(checkpoint: Path) -> int:
    with safe_open(checkpoint, framework="numpy") as file:
        return int(file.metadata()["step"])


def assert_refused(done: subprocess.CompletedProcess[str], exit_code: Exit, *parts: str) -> None:
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr


# ---- what works --------------------------------------------------------------------------------------------------


def test_trains_on_the_example_batch(program: Path) -> None:
    done = daf("run", program, "--steps", 20)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"no --data: training on the example batch {example_path(program)}"
    assert lines[1].startswith("step  1/20  loss ")
    parts = [line.split("  ")[1] for line in lines if line.startswith("  ") and not line.startswith("    ")]
    assert parts == ["weights", "constants", "optimizer", "arena", "pool", "workspace", "batch"]
    first, last = next(line for line in lines if line.startswith("loss")).split()[1::2]
    assert float(last) < float(first)


def test_writes_weights_and_trace(program: Path, digits: Path, tmp_path: Path) -> None:
    weights, trace = tmp_path / "w.safetensors", tmp_path / "run.trace"
    done = daf("run", program, "--data", digits, "--steps", 5, "--save", weights, "--trace", trace, "--seed", 3)
    assert done.returncode == 0, done.stderr
    assert f"saved {weights} (step 5)" in done.stdout
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [row["step"] for row in rows if row["type"] == "step"] == [1, 2, 3, 4, 5]
    assert rows[0]["config"]["batch_size"] == 32
    assert rows[-1]["type"] == "footer"
    assert rows[-1]["completed"]
    state = json.loads(manifest_path(program).read_text())["state"]["tensors"]
    assert set(load_file(weights)) == {t["name"] for t in state if t["kind"] != "optimizer"}


def test_resumed_run_equals_one_that_was_not_interrupted(
    cnn_program: Path, digits: Path, checkpoint: Path, tmp_path: Path
) -> None:
    whole, resumed = tmp_path / "whole.safetensors", tmp_path / "resumed.safetensors"
    common = ("run", cnn_program, "--data", digits)
    assert daf(*common, "--steps", 6, "--save", whole).returncode == 0
    assert daf(*common, "--steps", 3, "--resume", checkpoint, "--save", resumed).returncode == 0
    assert step_of(resumed) == 6
    expected, found = load_file(whole), load_file(resumed)
    for name, tensor in expected.items():
        assert tensor.tobytes() == found[name].tobytes(), name


def test_a_learning_rate_that_is_too_large_is_named(cnn_program: Path) -> None:
    done = daf("run", cnn_program, "--steps", 5, "--lr", "1e30")
    assert done.returncode == 0
    assert "warning: the loss is not finite from step " in done.stderr


@pytest.mark.parametrize("option", [("--lr", "nan"), ("--lr", "-1"), ("--steps", 10**30), ("--save-every", 1)])
def test_impossible_options(cnn_program: Path, option: tuple[str, object]) -> None:
    done = daf("run", cnn_program, "--steps", 1, *option)
    assert done.returncode == Exit.USAGE
    assert option[0] in done.stderr


def test_an_instruction_set_that_is_not_there(cnn_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAF_ISA", "mmx")
    done = daf("run", cnn_program, "--steps", 1)
    assert_refused(done, Exit.USAGE, "cannot use the kernels for 'mmx'", "set DAF_ISA to one of these")


# ---- programs ----------------------------------------------------------------------------------------------------


def test_no_such_program(tmp_path: Path) -> None:
    done = daf("run", tmp_path / "none.pte", "--steps", 1)
    assert_refused(done, Exit.PROGRAM, "none.pte: no such file", "daf-export")


def test_program_without_manifest(program: Path) -> None:
    manifest_path(program).unlink()
    assert_refused(daf("run", program, "--steps", 1), Exit.PROGRAM, "cnn.daf.json", "no such file")


@pytest.mark.parametrize("kept", [0, 0.5, 0.999])
def test_truncated_program(program: Path, kept: float) -> None:
    os.truncate(program, int(program.stat().st_size * kept))
    assert_refused(daf("run", program, "--steps", 1), Exit.PROGRAM, "cnn.pte", "daf-export")


@pytest.mark.parametrize("place", [0.0, 0.3, 0.9])
def test_bit_flipped_program(program: Path, place: float) -> None:
    content = bytearray(program.read_bytes())
    content[int(len(content) * place)] ^= 1
    program.write_bytes(content)
    assert_refused(daf("run", program, "--steps", 1), Exit.PROGRAM, "cnn.pte", "daf-export")


def test_program_of_another_version(program: Path) -> None:
    document = json.loads(manifest_path(program).read_text())
    manifest_path(program).write_text(json.dumps({**document, "schema": 99}))
    assert_refused(daf("run", program, "--steps", 1), Exit.PROGRAM, "schema 99", "export the program again")


# ---- data --------------------------------------------------------------------------------------------------------

Arrays = dict[str, np.ndarray]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {"image": d["x"], "target": d["target"]}, "its tensors are 'image', 'target'"),
        (lambda d: {"x": d["x"]}, "the program's inputs are 'x', 'target'"),
        (lambda d: {**d, "more": d["x"]}, "its tensors are"),
        (lambda d: {**d, "x": d["x"].astype(np.float64)}, "'x' is float64, float32 expected"),
        (lambda d: {**d, "target": d["target"].astype(np.int32)}, "'target' is int32, int64 expected"),
        (lambda d: {**d, "x": d["x"][:, 0]}, "'x' has shape [1437, 8, 8], [samples, 1, 8, 8] expected"),
        (lambda d: {**d, "target": d["target"][:-1]}, "'x' has 1437 samples but 'target' has 1436"),
        (lambda d: {k: v[:5] for k, v in d.items()}, "it has 5 samples and a step takes 32"),
    ],
)
def test_data_that_do_not_fit(
    cnn_program: Path, digits: Path, tmp_path: Path, change: Callable[[Arrays], Arrays], message: str
) -> None:
    path = tmp_path / "d.safetensors"
    save_file({name: np.ascontiguousarray(array) for name, array in change(load_file(digits)).items()}, path)
    done = daf("run", cnn_program, "--data", path, "--steps", 1)
    assert_refused(done, Exit.DATA, f"cannot use data {path}: ", message)


def test_missing_data(cnn_program: Path, tmp_path: Path) -> None:
    done = daf("run", cnn_program, "--data", tmp_path / "none.safetensors", "--steps", 1)
    assert_refused(done, Exit.DATA, "none.safetensors: no such file")


def test_truncated_data(cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.safetensors"
    path.write_bytes(digits.read_bytes()[:-100])
    assert_refused(daf("run", cnn_program, "--data", path, "--steps", 1), Exit.DATA, "truncated")


# ---- weights -----------------------------------------------------------------------------------------------------


def resume(program: Path, weights: Path) -> subprocess.CompletedProcess[str]:
    return daf("run", program, "--steps", 1, "--resume", weights)


def test_no_such_weights(cnn_program: Path, tmp_path: Path) -> None:
    assert_refused(resume(cnn_program, tmp_path / "w.safetensors"), Exit.WEIGHTS, "no such file")


def test_weights_of_another_model(cnn_program: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"fc.weight": np.zeros((2, 2), np.float32)}, path)
    assert_refused(resume(cnn_program, path), Exit.WEIGHTS, "it has no '", "not from this model (cnn_digits)")


def test_weights_of_another_width(cnn_program: Path, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({**load_file(checkpoint), "head.weight": np.zeros((10, 4), np.float32)}, path)
    assert_refused(resume(cnn_program, path), Exit.WEIGHTS, "'head.weight' is float32 [10, 4]", "[10, 128]")


def test_weights_that_are_not_a_checkpoint(cnn_program: Path, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(load_file(checkpoint), path)
    assert_refused(resume(cnn_program, path), Exit.WEIGHTS, "does not say at which step")


def test_checkpoint_without_its_optimizer_state(cnn_program: Path, checkpoint: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(checkpoint, tmp_path))
    assert_refused(resume(cnn_program, path), Exit.WEIGHTS, "w.optim-3.safetensors")


def test_truncated_optimizer_state(cnn_program: Path, checkpoint: Path, tmp_path: Path) -> None:
    for path in checkpoint.parent.iterdir():
        shutil.copy(path, tmp_path)
    optimizer_file = next(tmp_path.glob("*.optim-3.safetensors"))
    os.truncate(optimizer_file, optimizer_file.stat().st_size - 8)
    assert_refused(resume(cnn_program, tmp_path / checkpoint.name), Exit.WEIGHTS, optimizer_file.name)


# ---- output ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--save", "--trace"])
def test_read_only_folder(cnn_program: Path, small_disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = daf("run", cnn_program, "--steps", 1, option, small_disk / "out")
    assert_refused(done, Exit.OUTPUT, "cannot write", "read-only")


def test_folder_that_does_not_exist(cnn_program: Path, tmp_path: Path) -> None:
    done = daf("run", cnn_program, "--steps", 1, "--save", tmp_path / "none" / "w.safetensors")
    assert_refused(done, Exit.OUTPUT, "its folder does not exist")


def test_disk_that_fills_up_keeps_the_last_checkpoint(cnn_program: Path, small_disk: Path) -> None:
    weights = small_disk / "w.safetensors"
    done = daf("run", cnn_program, "--steps", 1, "--save", weights)
    assert done.returncode == 0, done.stderr
    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    done = daf("run", cnn_program, "--steps", 1, "--save", weights, "--resume", weights)
    assert_refused(done, Exit.OUTPUT, "cannot write")
    assert step_of(weights) == 1
    (small_disk / "ballast").unlink()
    assert resume(cnn_program, weights).returncode == 0


# ---- interruption ------------------------------------------------------------------------------------------------


def start_long_run(program: Path, *arguments: object) -> subprocess.Popen[str]:
    """A run that will not end by itself, after its first step."""
    process = subprocess.Popen(
        [SCRIPTS / "daf", "run", program, "--steps", "100000000", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("step "):
        assert line, "the run ended before its first step"
    return process


def test_interrupt_saves_and_can_be_resumed(cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    process = start_long_run(cnn_program, "--data", digits, "--save", weights)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.INTERRUPTED
    step = step_of(weights)
    assert f"interrupted after step {step}; {weights} holds step {step}" in errors
    done = daf("run", cnn_program, "--data", digits, "--steps", 1, "--resume", weights)
    assert f"step {step + 1}/{step + 1}  " in done.stdout


def test_interrupt_without_save_says_that_nothing_was_kept(cnn_program: Path) -> None:
    process = start_long_run(cnn_program)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == Exit.INTERRUPTED
    assert "nothing was kept, because --save was not given" in errors


def test_killed_training_is_reported_and_its_checkpoint_stays(
    cnn_program: Path, checkpoint: Path, tmp_path: Path
) -> None:
    for path in checkpoint.parent.iterdir():
        shutil.copy(path, tmp_path)
    weights = tmp_path / checkpoint.name
    process = start_long_run(cnn_program, "--resume", weights, "--save", weights, "--save-every", 1)
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    os.kill(child, signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == Exit.DEVICE
    assert "training was killed by SIGKILL" in errors
    assert "memory" in errors
    assert step_of(weights) >= 3
    assert resume(cnn_program, weights).returncode == 0
