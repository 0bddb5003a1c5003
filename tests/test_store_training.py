"""Training with compressed activations: gradients, budgets, values that are not finite."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from training import Export, NoOptimizer, Options, export_program, load_model_file, native, open_session
from zoo_settings import SMALL

from daf.exporter.schemes import STORE_SCHEMA

SETTINGS: dict[str, dict[str, object]] = {
    "cnn_digits": {"width": 8, "batch_size": 16},
    "resnet18": {"width": 8, "batch_size": 4},
    "minilm_lora": {**SMALL["minilm_lora"], "sequence_length": 32},
}


def export_gradients(model: str, folder: Path, activations: Any, bits: int | None = None) -> Export:
    """With gradients as outputs."""
    file = load_model_file(model, {name: str(value) for name, value in SETTINGS[model].items()})
    options = Options(file, folder / f"{model}-{activations}.pte", NoOptimizer(), activations=activations, bits=bits)
    return export_program(options)


def gradients(session: native.Session, batch: tuple[Tensor, ...], rounding: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    session.set_rounding_seed(rounding)
    session.set_step_count(0)
    session.step([tensor.numpy() for tensor in batch])
    return {name: value for name, value in session.outputs().items() if name.startswith("grad:")}


def relative_error(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """Of all gradients as one vector."""
    difference = sum(float(np.sum((found[name] - expected[name]) ** 2.0)) for name in expected)
    return float(np.sqrt(difference / sum(float(np.sum(expected[name] ** 2.0)) for name in expected)))


@pytest.mark.parametrize("model", SETTINGS)
def test_eight_bits_are_within_one_percent(model: str, tmp_path: Path) -> None:
    plain, stored = (export_gradients(model, tmp_path, mode, bits) for mode, bits in (("fp32", None), ("daf", 8)))
    expected = gradients(open_session(plain), plain.batch)
    found = gradients(open_session(stored), stored.batch)
    assert 0 < relative_error(found, expected) < 0.01


@pytest.mark.parametrize("model", ["cnn_digits", "minilm_lora"])
def test_two_bits_are_unbiased(model: str, tmp_path: Path) -> None:
    """The mean over n draws comes nearer to the exact gradient as 1 / sqrt(n)."""
    plain, stored = (export_gradients(model, tmp_path, mode, bits) for mode, bits in (("fp32", None), ("daf", 2)))
    expected = gradients(open_session(plain), plain.batch)
    session = open_session(stored)
    total = {name: np.zeros_like(value, dtype=np.float64) for name, value in expected.items()}
    errors = []
    for draw in range(1, 201):
        for name, value in gradients(session, stored.batch, draw).items():
            total[name] += value
        if draw in (1, 200):
            errors.append(relative_error({name: value / draw for name, value in total.items()}, expected))
    one, mean = errors
    assert mean < 3 * one / np.sqrt(200), f"one draw is {one:.3f} off, the mean of 200 {mean:.3f}"


def test_the_same_seed_gives_the_same_gradients_on_any_number_of_threads(tmp_path: Path) -> None:
    stored = export_gradients("cnn_digits", tmp_path, "daf", 2)
    session = open_session(stored)
    first, again, other = (gradients(session, stored.batch, seed) for seed in (5, 5, 6))
    native.set_threads(3)
    try:
        threaded = gradients(session, stored.batch, 5)
    finally:
        native.set_threads(1)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert all(np.array_equal(first[name], threaded[name]) for name in first)
    assert not all(np.array_equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_comes_out_as_in_float32(value: float, tmp_path: Path) -> None:
    plain, stored = (
        export_gradients("cnn_digits", tmp_path, mode, bits) for mode, bits in (("fp32", None), ("daf", 2))
    )
    batch = (plain.batch[0].clone(), *plain.batch[1:])
    batch[0][3].view(-1)[7] = value
    expected, found = (gradients(open_session(export), batch) for export in (plain, stored))
    for name, gradient in expected.items():
        assert np.array_equal(np.isfinite(gradient), np.isfinite(found[name])), name


# ---- budgets ------------------------------------------------------------------------------------------------------


def smallest_budget(export: Export) -> int:
    with pytest.raises(native.DafError) as refused:
        budget_session(export, 1)
    words = str(refused.value).split()
    return int(words[words.index("is", words.index("smallest")) + 1])


def budget_session(export: Export, budget: int) -> native.Session:
    assert export.written is not None
    return native.Session(str(export.written.program), str(export.written.manifest_path), budget=budget)


def test_a_budget_below_the_floor_is_refused_with_the_smallest_that_does(tmp_path: Path) -> None:
    export = export_gradients("resnet18", tmp_path, "daf", 8)
    smallest = smallest_budget(export)
    with pytest.raises(native.DafError, match=f"smallest budget is {smallest} bytes") as refused:
        budget_session(export, smallest - 1)
    assert refused.value.exit_code == 2
    session = budget_session(export, smallest)
    session.step([tensor.numpy() for tensor in export.batch])
    stats = session.store()
    assert min(stats["bits"].values()) == 1
    assert stats["peak_used"] <= stats["budget"]


def test_a_tight_budget_has_fewer_bits_from_the_first_step_on(tmp_path: Path) -> None:
    export = export_gradients("resnet18", tmp_path, "daf", 8)
    session = budget_session(export, smallest_budget(export) + 100_000)
    batch = [tensor.numpy() for tensor in export.batch]
    for _ in range(2):
        session.step(batch)
        stats = session.store()
        assert 1 <= min(stats["bits"].values()) < 8
        assert stats["peak_used"] <= stats["budget"]
        assert sum(stats["drops_by_bit"]) == 0  # nothing is made to be dropped


def test_a_budget_cut_in_mid_run_is_honoured_and_training_goes_on(tmp_path: Path) -> None:
    export = export_gradients("resnet18", tmp_path, "daf", 8)
    session = open_session(export)
    batch = [tensor.numpy() for tensor in export.batch]
    session.step(batch)
    pool = session.store()["peak_used"]
    fixed = smallest_budget(export) - native.store_bytes(
        [entry.n_elements for entry in export.store.entries], [1] * len(export.store.entries)
    )
    in_force = []
    done = threading.Event()

    def cut() -> None:  # while steps run
        while not done.is_set():
            in_force.append(session.trim(fixed + pool // 2))

    other = threading.Thread(target=cut)
    other.start()
    losses = [session.step(batch) for _ in range(10)]
    done.set()
    other.join()
    assert set(in_force) == {fixed + pool // 2}
    stats = session.store()
    assert stats["committed"] <= stats["budget"] == pool // 2
    assert stats["used"] == 0
    assert stats["valid"]
    assert all(np.isfinite(losses))


def test_random_budgets_and_trims_never_exceed_and_leave_nothing(tmp_path: Path) -> None:
    export = export_gradients("resnet18", tmp_path, "daf", 6)
    smallest = smallest_budget(export)
    batch = [tensor.numpy() for tensor in export.batch]
    for seed in range(6):
        choose = random.Random(seed)
        session = budget_session(export, smallest + choose.randrange(300_000))
        for _ in range(4):
            in_force = session.trim(smallest + choose.randrange(-50_000, 300_000))
            assert in_force >= smallest
            loss = session.step(batch)
            stats = session.store()
            assert np.isfinite(loss), seed
            assert stats["committed"] <= stats["budget"], seed
            assert stats["used"] == 0, seed
            assert stats["valid"], seed


def test_a_failed_step_leaves_nothing_behind(tmp_path: Path) -> None:
    export = export_gradients("cnn_digits", tmp_path, "daf", 2)
    session = open_session(export)
    wrong = [export.batch[0].numpy(), np.full_like(export.batch[1].numpy(), 99)]
    with pytest.raises(native.DafError, match="target 99"):
        session.step(wrong)
    assert session.store()["used"] == 0
    assert np.isfinite(session.step([tensor.numpy() for tensor in export.batch]))


def test_a_plan_from_another_version_is_refused(tmp_path: Path) -> None:
    export = export_gradients("cnn_digits", tmp_path, "daf", 2)
    assert export.written is not None
    path = export.written.manifest_path
    schema = '"store": {\n  "schema": '
    path.write_text(path.read_text().replace(f"{schema}{STORE_SCHEMA}", f"{schema}{STORE_SCHEMA - 1}"))
    expected = f"schema {STORE_SCHEMA}, the program by {STORE_SCHEMA - 1}"
    with pytest.raises(native.DafError, match=expected) as refused:
        open_session(export)
    assert refused.value.exit_code == 5


def test_compressed_programs_resume_bit_for_bit(tmp_path: Path) -> None:
    from training import Sgd

    file = load_model_file("cnn_digits", {"width": "8", "batch_size": "16"})
    export = export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="daf"))
    batch = [tensor.numpy() for tensor in export.batch]
    whole, first, second = (open_session(export, seed=3) for _ in range(3))
    for _ in range(6):
        whole.step(batch)
    for _ in range(3):
        first.step(batch)
    first.save(str(tmp_path / "w.safetensors"))
    second.restore(str(tmp_path / "w.safetensors"))
    for _ in range(3):
        second.step(batch)
    expected, found = whole.state(), second.state()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
