"""By what stored activations share their bits: `--importance uniform|calibrated|gradient`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from training import Export, Options, Sgd, export_program, load_model_file, native
from zoo_settings import SMALL

from daf.exporter.calibrate import _distance, calibrate
from daf.exporter.cli import export as export_command
from daf.exporter.schemes import CAREFUL_BITS, MAX_CAREFUL_LAYERS
from daf.exporter.write import rewrite_manifest
from daf.manifest import manifest_path, read_manifest


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("calibrated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        file = load_model_file("resnet18", {"width": "16", "batch_size": "16"})
        options = Options(file, folder / "p.pte", Sgd(), activations="daf", importance="calibrated")
        export = export_program(options)
        export.sensitivities = calibrate(export, 1, lambda done, total: None)
        rewrite_manifest(export)
    return export


def open_session(export: Export, importance: str | None) -> native.Session:
    assert export.written is not None
    paths = str(export.written.program), str(export.written.manifest_path)
    return native.Session(*paths, importance=importance)


def arrays(export: Export) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    return [tensor.numpy() for tensor in export.batch]


def test_gradients_say_what_calibration_measures(calibrated: Export, tmp_path: Path) -> None:
    """One step of training finds nearly the order that calibration takes two steps per activation for."""
    session = open_session(calibrated, "gradient")
    session.step(arrays(calibrated))
    path = tmp_path / "w.safetensors"
    session.save(str(path))
    with safe_open(path, "np") as file:
        found = [float.fromhex(text) for text in file.metadata()["store_sensitivities"].split()]
    expected = list(calibrated.sensitivities.values())
    assert np.corrcoef(np.log(found), np.log(expected))[0, 1] > 0.5


def test_all_share_the_same_bytes(calibrated: Export) -> None:
    planned = native.store_bytes(*_plan(calibrated))
    for importance in ("uniform", "calibrated", "gradient"):
        session = open_session(calibrated, importance)
        for _ in range(2):
            session.step(arrays(calibrated))
        assert planned * 0.9 < session.store()["peak_used"] <= planned, importance
    uniform = open_session(calibrated, "uniform")
    uniform.step(arrays(calibrated))
    bits = list(uniform.store()["bits"].values())
    # Whole pages may leave room for a plane more, or lack that of one.
    assert max(bits) - min(bits) <= 1
    assert np.median(bits) == 2


def test_what_matters_more_gets_more_bits(calibrated: Export, tmp_path: Path) -> None:
    assert calibrated.written is not None
    first, *others = calibrated.sensitivities
    export = replace(
        calibrated,
        sensitivities={**calibrated.sensitivities, first: 100 * calibrated.sensitivities[first]},
        written=replace(calibrated.written, manifest_path=tmp_path / "p.daf.json"),
    )
    rewrite_manifest(export)
    session = open_session(export, None)
    session.step(arrays(export))
    bits = session.store()["bits"]
    assert bits[first] > 2
    assert {bits[name] for name in others} == {1, 2}
    assert session.store()["peak_used"] <= native.store_bytes(*_plan(calibrated))


def test_noise_of_a_gradient_that_is_nearly_zero_does_not_outweigh_others() -> None:
    exact = {"weight": torch.ones(4), "bias": torch.full((4,), 1e-12)}
    off = {"weight": torch.ones(4) * 1.1, "bias": torch.full((4,), 1e-6)}
    assert _distance(off, exact, exact) == pytest.approx(0.01, rel=1e-3)


def _plan(export: Export) -> tuple[list[int], list[int]]:
    assert export.written is not None
    entries = export.written.manifest["store"]["entries"]
    return [entry["n_elements"] for entry in entries], [entry["bits"] for entry in entries]


def test_measured_importance_is_resumed_bit_for_bit(calibrated: Export, tmp_path: Path) -> None:
    whole, first, second = (open_session(calibrated, "gradient") for _ in range(3))
    for _ in range(5):
        whole.step(arrays(calibrated))
    for _ in range(2):
        first.step(arrays(calibrated))
    first.save(str(tmp_path / "w.safetensors"))
    second.restore(str(tmp_path / "w.safetensors"))
    for _ in range(3):
        second.step(arrays(calibrated))
    expected, found = whole.state(), second.state()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_what_was_not_calibrated_is_refused(tmp_path: Path) -> None:
    file = load_model_file("cnn_digits", {"width": "8", "batch_size": "16"})
    export = export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="daf"))
    with pytest.raises(native.DafError, match="was not calibrated; export it with daf-export --calibrate") as refused:
        open_session(export, "calibrated")
    assert refused.value.exit_code == 2
    with pytest.raises(native.DafError, match="no importance 'luck'"):
        open_session(export, "luck")


LORA = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(32, 128).requires_grad_(False)
        self.a, self.b = nn.Linear(128, 4, bias=False), nn.Linear(4, 128, bias=False)
        self.head = nn.Linear(128, 3)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        y = self.base(x)
        return self.head(torch.tanh(y) + self.b(self.a(y)))

def model():
    torch.manual_seed(0)
    return Net()

def batch():
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 3

def loss(output, target):
    return nn.functional.cross_entropy(output, target)
"""


def test_gradients_of_zero_make_nothing_important(tmp_path: Path) -> None:
    """LoRA begins so: the gradient of its first factor is zero, and nothing can be relatively wrong with it."""
    (tmp_path / "lora.py").write_text(LORA)
    file = load_model_file(str(tmp_path / "lora.py"), {})
    export = export_program(Options(file, tmp_path / "p.pte", Sgd(lr=0.1), activations="daf", importance="gradient"))
    (read_by_a,) = (i for i, entry in enumerate(export.store.entries) if entry.activation.module.endswith("base"))
    session = open_session(export, None)
    measured = []
    for _ in range(2):
        session.step([tensor.numpy() for tensor in export.batch])
        session.save(str(tmp_path / "w.safetensors"))
        with safe_open(tmp_path / "w.safetensors", "numpy") as saved:
            numbers = saved.metadata()["store_sensitivities"].replace(",", " ").split()
        measured.append([float.fromhex(number) for number in numbers])
    first, second = measured
    assert first[read_by_a] == 0 < max(first)
    assert second[read_by_a] > 0, "measured again after the first step, which made the second factor"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--activations", "daf"], "gradient"),
        (["--activations", "daf", "--bits", "3"], "uniform"),
        (["--activations", "daf", "--calibrate", "1"], "calibrated"),
        (["--activations", "division"], "uniform"),
    ],
)
def test_what_is_taken_when_nothing_is_said(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = tmp_path / "p.pte"
    result = CliRunner().invoke(export_command, ["cnn_digits", "-q", "-o", str(program), *arguments])
    assert result.exit_code == 0, result.output
    assert read_manifest(manifest_path(program)).raw["store"]["importance"] == expected


@pytest.mark.parametrize(
    ("model", "settings", "bits"),
    [
        ("mobilenet_v2", {"width": 0.25, "resolution": 32}, CAREFUL_BITS),
        ("vit_tiny", SMALL["vit_tiny"], CAREFUL_BITS),
        ("minilm_lora", SMALL["minilm_lora"], CAREFUL_BITS),  # with dropout between the probabilities and their product
        ("vit_tiny", {**SMALL["vit_tiny"], "layers": MAX_CAREFUL_LAYERS + 1}, CAREFUL_BITS + 1),
    ],
)
def test_there_are_more_bits_where_rounding_does_not_average_out(
    model: str, settings: dict[str, float], bits: int, tmp_path: Path
) -> None:
    """Depthwise convolutions that train, and attention, by the number of its layers."""
    program = tmp_path / "p.pte"
    sets = [word for name in settings.keys() - {"batch_size"} for word in ("--set", f"{name}={settings[name]}")]
    arguments = [model, *sets, "--batch-size", "4", "-q", "-o", str(program), "--activations", "daf"]
    result = CliRunner().invoke(export_command, arguments)
    assert result.exit_code == 0, result.output
    entries = read_manifest(manifest_path(program)).raw["store"]["entries"]
    assert {entry["bits"] for entry in entries} == {bits}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--importance", "gradient"], "fp32 activations are not stored"),
        (["--activations", "daf", "--importance", "calibrated"], "add --calibrate 4"),
        (["--activations", "daf", "--importance", "luck"], "'luck' is not one of"),
    ],
)
def test_export_refuses(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(export_command, ["cnn_digits", "-o", str(tmp_path / "p.pte"), *arguments])
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())
