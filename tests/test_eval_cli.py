"""`daf eval` and `daf data`, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from commands import daf
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch_file

from daf.errors import Exit
from daf.exporter.load import load_model_file


@pytest.fixture(scope="module")
def weights(cnn_program: Path, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "w.safetensors"
    done = daf("run", cnn_program, "--data", digits, "--steps", 60, "--save", path)
    assert done.returncode == 0, done.stderr
    return path


def test_predictions_and_accuracy_equal_those_of_pytorch(
    cnn_program: Path, digits: Path, weights: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.safetensors"
    done = daf("eval", cnn_program, "--data", digits, "--weights", weights, "--output", output)
    assert done.returncode == 0, done.stderr

    model = load_model_file("cnn_digits").make_model()
    model.load_state_dict(load_torch_file(weights))
    data = load_torch_file(digits)
    with torch.no_grad():
        scores = model.eval()(data["x"])
    accuracy = 100 * (scores.argmax(1) == data["target"]).double().mean().item()
    # 1437 samples are not a multiple of the batch size: the last batch is a partial one.
    np.testing.assert_allclose(load_file(output)["output0"], scores.numpy(), rtol=1e-4, atol=1e-4)
    assert done.stdout.splitlines() == ["samples   1437", f"accuracy  {accuracy:.2f} %", f"wrote {output}"]
    assert accuracy > 80


def test_data_without_target_give_no_accuracy(cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"x": load_file(digits)["x"][:5]}, path)
    done = daf("eval", cnn_program, "--data", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["no --weights: using those the program was exported with", "samples   5"]


def test_more_weights_than_the_program_trains_are_fine(cnn_program: Path, digits: Path, tmp_path: Path) -> None:
    """A state dict of PyTorch also has frozen layers and counters."""
    path = tmp_path / "w.safetensors"
    state = load_model_file("cnn_digits").make_model().state_dict()
    save_file({**{name: tensor.numpy() for name, tensor in state.items()}, "frozen": np.zeros(3)}, path)
    assert daf("eval", cnn_program, "--data", digits, "--weights", path).returncode == 0


@pytest.mark.parametrize(
    ("option", "exit_code"), [("--data", Exit.DATA), ("--weights", Exit.WEIGHTS), ("--output", Exit.OUTPUT)]
)
def test_files_that_are_not_there(
    cnn_program: Path, digits: Path, tmp_path: Path, option: str, exit_code: Exit
) -> None:
    arguments = {"--data": digits, option: tmp_path / "none" / "f.safetensors"}
    done = daf("eval", cnn_program, *(text for item in arguments.items() for text in item))
    assert done.returncode == exit_code
    assert "f.safetensors" in done.stderr


def test_data_writes_both_splits(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.safetensors"
    done = daf("data", "cnn_digits", "--split", "test", "-o", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["x  float32  [360, 1, 8, 8]", "target  int64  [360]", f"wrote {path}"]
    assert load_file(digits)["x"].shape == (1437, 1, 8, 8)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["no_such_model"], Exit.MODEL, "neither a file nor a zoo model"),
        (["cnn_digits", "--set", "wide=3"], Exit.USAGE, "no such setting"),
        (["cnn_digits", "--set", "width"], Exit.USAGE, "name=value"),
    ],
)
def test_data_refuses(tmp_path: Path, arguments: list[str], exit_code: Exit, message: str) -> None:
    done = daf("data", *arguments, "-o", tmp_path / "d.safetensors")
    assert done.returncode == exit_code
    assert message in done.stderr
    assert not list(tmp_path.iterdir())
