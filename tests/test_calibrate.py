"""Sensitivities are measured on the program, kept, and share out the bits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training import Export, Options, Sgd, export_program, load_model_file

from daf.errors import Exit, UserError
from daf.exporter.calibrate import calibrate
from daf.exporter.write import rewrite_manifest


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = load_model_file("cnn_digits", {"width": "8", "batch_size": "16"})
    return export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="daf"))


def ignore(done: int, total: int) -> None:
    pass


def test_every_stored_activation_is_measured_and_cached(export: Export, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    found = calibrate(export, 2, lambda done, total: steps.append((done, total)))
    names = [entry.activation.name for entry in export.store.entries]
    assert list(found) == names
    assert all(value > 0 for value in found.values())
    assert steps == [(i, 2 * len(names)) for i in range(2 * len(names))]
    again: list[int] = []
    assert calibrate(export, 2, lambda done, total: again.append(done)) == found
    assert again == []  # from the cache
    (cache,) = (tmp_path / "cache" / "daf").iterdir()
    cache.write_text("{")
    assert calibrate(export, 2, ignore) == found  # a damaged one is made anew


def test_a_cache_that_cannot_be_written_is_no_error(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert calibrate(export, 1, ignore)


def test_a_budget_does_not_disturb_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a tight budget planes would be dropped while others are measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = load_model_file("resnet18", {"width": "4", "batch_size": "4"})
    free = export_program(Options(file, tmp_path / "a.pte", Sgd(), activations="daf"))
    assert free.written is not None
    memory = free.written.manifest["memory"]
    budget = memory["arena"] + memory["workspace"] + memory["pool"] * 3 // 4
    tight = export_program(Options(file, tmp_path / "b.pte", Sgd(), activations="daf", budget_bytes=budget))
    expected = calibrate(free, 1, ignore)
    assert calibrate(tight, 1, ignore) == pytest.approx(expected)


def test_the_manifest_gets_what_was_measured(export: Export) -> None:
    assert export.written is not None
    names = [entry.activation.name for entry in export.store.entries]
    export.sensitivities = {name: 1e6 if i == 0 else 1.0 for i, name in enumerate(names)}
    program = export.written.program.read_bytes()
    rewrite_manifest(export)
    entries = json.loads(export.written.manifest_path.read_text())["store"]["entries"]
    assert [entry["sensitivity"] for entry in entries] == list(export.sensitivities.values())
    bits = [entry["bits"] for entry in entries]
    assert bits[0] == max(bits) > min(bits)
    assert export.written.program.read_bytes() == program


def test_gradients_that_are_not_finite_are_refused(export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daf.exporter.calibrate._batches", lambda export, n: [export.batch])
    export.batch[0].view(-1)[0] = float("nan")
    with pytest.raises(UserError, match="not finite") as refused:
        calibrate(export, 1, ignore)
    assert refused.value.exit_code == Exit.MODEL
