"""By what stored activations share their bits: `--importance uniform|calibrated|gradient`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from training import Export, Options, Sgd, export_program, load_model_file, native

from daf.exporter.calibrate import calibrate
from daf.exporter.cli import export as export_command
from daf.exporter.write import rewrite_manifest


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("calibrated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        file = load_model_file("resnet18", {"width": "8", "batch_size": "8"})
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
    assert set(uniform.store()["bits"].values()) <= {2, 3}  # whole pages may leave room for a plane more
    assert len(set(open_session(calibrated, None).store()["bits"].values())) > 1


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
