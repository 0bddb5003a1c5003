"""`daf-export --check`: it lets a right program pass, and no wrong one."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training import Export, Sgd, export_model, open_session
from zoo_settings import SMALL

from daf import native
from daf.errors import Exit, UserError
from daf.exporter import check as check_module
from daf.exporter import cli
from daf.exporter.check import LIMIT, CheckResult, check, relative_errors
from daf.exporter.eager import in_double, loss_and_gradients, program_dropout
from daf.exporter.load import load_model_file
from daf.exporter.pipeline import Options, export_program
from daf.exporter.write import WrittenProgram
from daf.manifest import manifest_path


@pytest.fixture(params=["cnn_export", "dropout_export", "plain_export"])
def any_export(request: pytest.FixtureRequest) -> Export:
    """SGD with momentum; AdamW and dropout; no optimizer: the three ways to find a gradient out."""
    export: Export = request.getfixturevalue(request.param)
    return export


def test_right_programs_pass(any_export: Export) -> None:
    before = {name: value.clone() for name, value in any_export.model.state_dict().items()}
    result = check(any_export)
    assert result.passed
    assert set(result.errors) == {name for name, _ in any_export.model.named_parameters()}
    assert result.worst[1] == max(result.errors.values()) < 1e-5
    assert result.loss_error < 1e-6
    for name, value in any_export.model.state_dict().items():
        assert torch.equal(value, before[name]), "the model is left as it was"
    assert all(parameter.grad is None for parameter in any_export.model.parameters())


def test_without_momentum_the_gradient_is_read_off_the_weight(tmp_path: Path) -> None:
    export = export_model("mlp_digits", tmp_path, Sgd(momentum=0.0, weight_decay=0.1), SMALL["mlp_digits"])
    assert check(export).worst[1] < 1e-4


FEW_SAMPLES = """
import torch
from torch import nn

def model():
    torch.manual_seed(0)
    layers = [(nn.Linear(n, 256), nn.BatchNorm1d(256), nn.ReLU()) for n in (32, 256, 256)]
    return nn.Sequential(*(layer for block in layers for layer in block), nn.Linear(256, 10))

def batch():
    return torch.randn(4, 32, generator=torch.Generator().manual_seed(1)), torch.arange(4)

loss = nn.functional.cross_entropy
"""


@pytest.fixture(scope="module")
def compressed_export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    file = load_model_file("cnn_digits", {"width": "4", "batch_size": "16"})
    output = tmp_path_factory.mktemp("check") / "program.pte"
    return export_program(Options(file, output, Sgd(momentum=0.9), activations="daf"))


def test_compressed_programs_are_right_on_average(
    compressed_export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    result = check(compressed_export)
    assert result.passed
    assert result.noise is not None
    assert 0.02 < result.noise < 2.0, "one step differs"
    assert cli._check(compressed_export) == Exit.OK
    assert "check: gradients are right on average of 16 roundings; one step's differ by" in capsys.readouterr().out


def test_a_row_of_zeros_is_not_rounded_by_the_rows_beside_it(tmp_path: Path) -> None:
    """Normalisation multiplies what it finds in such a row by 316, rounding errors too."""
    file = load_model_file(str(Path(__file__).parent / "models" / "class_token.py"), {})
    result = check(export_program(Options(file, tmp_path / "program.pte", Sgd(momentum=0.9), activations="daf")))
    assert result.passed
    assert result.noise is not None
    assert result.noise < 1.0


def test_a_channel_that_hardly_varies_is_not_rounded_by_the_channels_beside_it(tmp_path: Path) -> None:
    """As in a batch of four: some channels are nearly the same in all of them."""
    path = tmp_path / "net.py"
    path.write_text(FEW_SAMPLES)
    options = Options(load_model_file(str(path), {}), tmp_path / "program.pte", Sgd(momentum=0.9), activations="daf")
    result = check(export_program(options))
    assert result.passed
    assert result.noise is not None
    assert result.noise < 1.0


@pytest.mark.parametrize("factor", [3.0, math.nan])
def test_compressed_programs_with_a_wrong_gradient_fail(
    compressed_export: Export, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], factor: float
) -> None:
    right = check_module.program_gradients

    def wrong(export: Export, session: native.Session) -> dict[str, Tensor]:
        found = right(export, session)
        name = next(iter(found))
        return {**found, name: factor * found[name]}

    monkeypatch.setattr(check_module, "program_gradients", wrong)
    with pytest.raises(UserError):
        cli._check(compressed_export)
    name = next(iter(dict(compressed_export.model.named_parameters())))
    assert f"in {name}, more than their spread explains" in capsys.readouterr().out


def test_it_says_what_it_found(cnn_export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._check(cnn_export) == Exit.OK
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("check: loss 2.")
    assert "(relative error " in first
    assert second.startswith("check: largest relative gradient error ")
    assert second.split(", in ")[1] in dict(cnn_export.model.named_parameters())


# ---- wrong programs ---------------------------------------------------------------------------------------------


def tampered(export: Export, folder: Path, old: bytes, new: bytes) -> Export:
    """A copy of an export with other bytes in its program, and a manifest that believes in them."""
    program = folder / export.written.program.name
    content = export.written.program.read_bytes()
    assert content.count(old) == 1
    program.write_bytes(content.replace(old, new))
    manifest = json.loads(export.written.manifest_path.read_text())
    manifest["program"]["sha256"] = hashlib.sha256(program.read_bytes()).hexdigest()
    manifest_path(program).write_text(json.dumps(manifest))
    return replace(export, written=WrittenProgram(program, manifest_path(program), manifest))


def test_another_weight_in_the_program_fails(cnn_export: Export, tmp_path: Path) -> None:
    weight = cnn_export.model.head.weight.detach().numpy()
    other = weight.copy()
    other[3] += 0.5
    result = check(tampered(cnn_export, tmp_path, weight.tobytes(), other.tobytes()))
    assert not result.passed
    assert result.worst[1] > 10 * LIMIT


def test_a_damaged_program_is_refused_before_it_runs(cnn_export: Export, tmp_path: Path) -> None:
    for path in (cnn_export.written.program, cnn_export.written.manifest_path):
        shutil.copy(path, tmp_path)
    program = tmp_path / cnn_export.written.program.name
    content = bytearray(program.read_bytes())
    content[len(content) // 2] ^= 1
    program.write_bytes(content)
    damaged = WrittenProgram(program, manifest_path(program), cnn_export.written.manifest)
    with pytest.raises(native.DafError) as caught:
        check(replace(cnn_export, written=damaged))
    assert caught.value.exit_code == Exit.PROGRAM


def wrong_gradients(monkeypatch: pytest.MonkeyPatch, name: str, factor: float) -> None:
    right = check_module.program_gradients

    def wrong(export: Export, session: native.Session) -> dict[str, Tensor]:
        found = right(export, session)
        return {**found, name: found[name] * factor}

    monkeypatch.setattr(check_module, "program_gradients", wrong)


def test_a_wrong_gradient_fails_and_is_named(
    cnn_export: Export, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong_gradients(monkeypatch, "block2.bn.bias", 1.01)
    result = check(cnn_export)
    assert not result.passed
    assert result.worst == ("block2.bn.bias", pytest.approx(0.01, rel=1e-2))
    with pytest.raises(UserError, match="differs from eager by more than 0.001") as caught:
        cli._check(cnn_export)
    assert caught.value.exit_code == Exit.CHECK_FAILED
    assert "gradient error 1.0e-02, in block2.bn.bias" in capsys.readouterr().out


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_fails(cnn_export: Export, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    wrong_gradients(monkeypatch, "head.bias", factor)
    result = check(cnn_export)
    assert not result.passed
    assert result.worst[0] == "head.bias"


@pytest.mark.parametrize(
    ("loss", "errors", "passed"),
    [
        (1.0, {"a": 0.0, "b": 1e-4}, True),
        (1.0, {"a": 0.0, "b": 1.01e-3}, False),
        (1.002, {"a": 0.0}, False),
        (math.nan, {"a": 0.0}, False),
        (1.0, {"a": 0.0, "b": math.nan}, False),
        (1.0, {"a": math.nan, "b": 0.0}, False),
    ],
)
def test_passing(loss: float, errors: dict[str, float], passed: bool) -> None:
    assert CheckResult(loss, 1.0, errors).passed is passed


# ---- how errors are measured ------------------------------------------------------------------------------------


def test_an_error_is_relative_to_the_parameters_largest_gradient() -> None:
    expected = {"a": torch.tensor([10.0, 0.001]), "b": torch.tensor([2.0])}
    found = {"a": torch.tensor([10.0, 0.101]), "b": torch.tensor([2.02])}
    assert relative_errors(found, expected) == pytest.approx({"a": 0.01, "b": 0.01}, rel=1e-4)


def test_a_gradient_of_rounding_noise_is_measured_against_the_models_largest() -> None:
    """A bias before BatchNorm has a gradient of exactly 0 in theory, and of any tiny value in float32."""
    expected = {"weight": torch.tensor([1.0]), "bias": torch.tensor([1e-17], dtype=torch.float64)}
    found = {"weight": torch.tensor([1.0]), "bias": torch.tensor([-3e-8])}
    assert relative_errors(found, expected)["bias"] == pytest.approx(3e-8, rel=1e-3)


def test_a_small_gradient_is_measured_against_a_floor() -> None:
    expected = {"weight": torch.tensor([1.0]), "bias": torch.tensor([1e-6])}
    found = {"weight": torch.tensor([1.0]), "bias": torch.tensor([1.01e-6])}
    assert relative_errors(found, expected)["bias"] == pytest.approx(1e-5, rel=1e-2)  # of 1e-3


def test_empty_parameters_are_no_error() -> None:
    empty = torch.ones(0, 3)
    assert relative_errors({"a": torch.ones(1), "b": empty}, {"a": torch.ones(1), "b": empty}) == {"a": 0.0, "b": 0.0}


# ---- dropout ----------------------------------------------------------------------------------------------------


def test_eager_draws_the_programs_masks() -> None:
    x = torch.ones(4, 50)
    with program_dropout(seed=5, step=3):
        first, second = nn.functional.dropout(x, 0.4), nn.functional.dropout(x, 0.4)
    for layer, found in enumerate((first, second)):
        expected = native.dropout(x.numpy(), 0.4, 5, 3, layer)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert not torch.equal(first, second)


def test_every_step_and_seed_of_the_program_drops_what_eager_drops(dropout_export: Export) -> None:
    session = open_session(dropout_export, seed=7)
    batch = [tensor.numpy() for tensor in dropout_export.batch]
    model, inputs = in_double(dropout_export.model, dropout_export.batch)
    losses = [session.step(batch, lr=0.0) for _ in range(3)]
    expected = [loss_and_gradients(model, inputs, dropout_export.options.file.loss, 7, step)[0] for step in range(3)]
    assert losses == pytest.approx(expected, rel=1e-6)
    assert len(set(losses)) == 3, "each step drops others"
