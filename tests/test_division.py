"""`--activations division`: which activations have maps, what they cost, and training with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx
from training import Export, NoOptimizer, Options, Sgd, export_program, load_model_file, native, open_session
from zoo_settings import SMALL

from daf.exporter.division import Division, MapEncoding, encode_maps
from daf.exporter.pipeline import PHASES, load
from daf.exporter.schemes import planes_bytes


def node_of(*shape: int) -> fx.Node:
    node = fx.Graph().placeholder("x")
    node.meta["val"] = torch.empty(shape, device="meta")
    return node


# ---- on paper -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "expected"), [(56, 2.26), (28, 2.22), (14, 2.25), (8, 2.75), (7, 2.98)])
def test_bits_per_element_are_those_of_the_formula(side: int, expected: float) -> None:
    map, bits = encode_maps(node_of(64, 4, side, side), 64, Division())
    assert map is not None
    assert bits == 2
    n = 64 * 4 * side * side
    block = min(8, side)
    formula = 2 + 16 * (side // block) ** 2 / side**2 + 32 / side**2
    assert planes_bytes(n, bits, map) * 8 / n == pytest.approx(formula, rel=1e-12)
    assert formula == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("side", [6, 4, 2, 1])
def test_small_maps_fall_back_to_groups_of_as_many_bits(side: int) -> None:
    map, bits = encode_maps(node_of(64, 512, side, side), 64, Division(hfc_bits=3))
    assert map is None
    assert bits == 3


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 196, 768), MapEncoding(196, 768, 8, 1)),
        ((4 * 196, 768), MapEncoding(196, 768, 8, 1)),  # the same, flattened
        ((4, 7, 768), MapEncoding(7, 768, 7, 1)),
        ((4, 3, 768), None),
        ((4, 4096), None),  # features of a sample: nothing to average
        ((4, 8, 14, 28), MapEncoding(14, 28, 8, 8)),
        ((4, 2, 3, 32, 32), None),
    ],
    ids=str,
)
def test_what_has_maps(shape: tuple[int, ...], expected: MapEncoding | None) -> None:
    map, bits = encode_maps(node_of(*shape), 4, Division())
    assert map == expected
    if map is not None:
        assert bits == (4 if map.block_width == 1 else 2)


def test_the_block_is_the_users() -> None:
    for block in (2, 3, 16, 64):
        map, _ = encode_maps(node_of(4, 8, 56, 56), 4, Division(lfc_block=block))
        assert map == MapEncoding(56, 56, min(block, 56), min(block, 56))


def planned(folder: Path, model: str, **settings: object) -> Export:
    """As far as the phase that assigns schemes."""
    file = load_model_file(model, {name: str(value) for name, value in settings.items()})
    export = load(Options(file, folder / "p.pte", Sgd(), activations="division"))
    for phase in PHASES[: 1 + [phase.name for phase in PHASES].index("assign schemes")]:
        phase.run(export)
    return export


@pytest.mark.parametrize(("model", "settings"), [("resnet18", {}), ("resnet50", {"width": 8})], ids=str)
def test_resnets_take_a_tenth_of_float32(model: str, settings: dict[str, object], tmp_path: Path) -> None:
    """What is kept is proportional to the batch, so a small one says it for 64; `make test-full` has that."""
    export = planned(tmp_path, model, batch_size=2, **settings)
    raw = sum(scheme.activation.raw_bytes for scheme in export.schemes)
    stored = sum(scheme.stored_bytes(scheme.bits or 0) for scheme in export.schemes)
    print(f"{model}: {raw / stored:.2f}x less than in float32")
    assert raw / stored >= 10
    assert not any("derive" in scheme.name for scheme in export.schemes)


def test_attention_is_a_sequence_whatever_the_layout(tmp_path: Path) -> None:
    export = planned(tmp_path, "vit_tiny", batch_size=4, layers=1)
    maps = {tuple(s.activation.node.meta["val"].shape): s.map for s in export.schemes if s.value == "division"}
    assert maps[4, 3, 197, 197] == MapEncoding(197, 197, 8, 1)  # probabilities: of each head, along the queries
    assert maps[4, 197, 3, 64] == MapEncoding(197, 192, 8, 1)  # what the heads see, beside each other
    assert maps[4 * 197, 768] == maps[4, 197, 768] == MapEncoding(197, 768, 8, 1)


# ---- training -----------------------------------------------------------------------------------------------------

SETTINGS: dict[str, dict[str, object]] = {
    "resnet18": {"width": 8, "batch_size": 4},
    "minilm_lora": {**SMALL["minilm_lora"], "sequence_length": 32},
}


def export_gradients(model: str, folder: Path, activations: Any, bits: int | None = None) -> Export:
    file = load_model_file(model, {name: str(value) for name, value in SETTINGS[model].items()})
    division = Division(hfc_bits=bits)
    output = folder / f"{model}-{activations}.pte"
    return export_program(Options(file, output, NoOptimizer(), activations=activations, division=division))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_gradients("resnet18", tmp_path_factory.mktemp("division"), "division", 8)


@pytest.fixture(scope="module")
def plain_resnet(tmp_path_factory: pytest.TempPathFactory) -> Export:
    return export_gradients("resnet18", tmp_path_factory.mktemp("plain"), "fp32")


def gradients(
    session: native.Session, batch: tuple[torch.Tensor, ...], rounding: int = 0
) -> dict[str, np.ndarray[Any, Any]]:
    session.set_rounding_seed(rounding)
    session.set_step_count(0)
    session.step([tensor.numpy() for tensor in batch])
    return {name: value for name, value in session.outputs().items() if name.startswith("grad:")}


def relative_error(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """Of all gradients as one vector."""
    difference = sum(float(np.sum((found[name] - expected[name]) ** 2.0)) for name in expected)
    return float(np.sqrt(difference / sum(float(np.sum(expected[name] ** 2.0)) for name in expected)))


def test_eight_bits_are_within_one_percent_on_pictures(resnet: Export, plain_resnet: Export) -> None:
    expected, found = (gradients(open_session(export), export.batch) for export in (plain_resnet, resnet))
    error = relative_error(found, expected)
    print(f"relative error {error:.4f}")
    assert 0 < error < 0.01


def test_eight_bits_are_within_one_percent_on_sequences(tmp_path: Path) -> None:
    plain, stored = (export_gradients("minilm_lora", tmp_path, *mode) for mode in (("fp32",), ("division", 8)))
    assert any(entry.map is not None for entry in stored.store.entries)
    expected, found = (gradients(open_session(export), export.batch) for export in (plain, stored))
    assert 0 < relative_error(found, expected) < 0.01


def test_two_bits_are_unbiased_and_the_same_on_any_number_of_threads(resnet: Export) -> None:
    """The mean over n draws comes nearer to that of eight bits as 1 / sqrt(n)."""
    session = open_session(resnet)
    expected = gradients(session, resnet.batch)
    session.set_bits([2] * len(resnet.store.entries))
    first, again = (gradients(session, resnet.batch, 1) for _ in range(2))
    native.set_threads(3)
    try:
        threaded = gradients(session, resnet.batch, 1)
    finally:
        native.set_threads(1)
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
        np.testing.assert_array_equal(value, threaded[name])
    n = 60
    draws = [gradients(session, resnet.batch, seed) for seed in range(1, n + 1)]
    mean = {name: np.mean([draw[name] for draw in draws], axis=0, dtype=np.float64) for name in expected}
    one = np.mean([relative_error(draw, expected) for draw in draws])
    assert relative_error(mean, expected) < 2 * one / np.sqrt(n) + 0.01


def test_the_manifest_says_what_is_stored(resnet: Export) -> None:
    assert resnet.written is not None
    manifest = resnet.written.manifest
    kept = {each["name"]: each for each in manifest["activations"]["kept"]}
    entries = manifest["store"]["entries"]
    sides = {entry["map"]["height"] if "map" in entry else None for entry in entries}
    assert sides == {32, 16, 8, None}  # 4 x 4 falls back
    for entry in entries:
        scheme = kept[entry["name"]]["scheme"].removeprefix("mask+")
        assert scheme == ("division" if "map" in entry else "planes")
        assert entry["bits"] == kept[entry["name"]]["bits"] == 8
    assert {each["scheme"] for each in kept.values()} <= {
        "keep",
        "mask",
        "division",
        "mask+division",
        "planes",
        "mask+planes",
    }
    session = open_session(resnet)
    session.step([tensor.numpy() for tensor in resnet.batch])
    assert session.store()["peak_used"] <= manifest["memory"]["pool"]
    assert session.memory()["workspace"] <= manifest["memory"]["workspace"]


def test_a_budget_below_the_plan_holds(resnet: Export) -> None:
    assert resnet.written is not None
    paths = str(resnet.written.program), str(resnet.written.manifest_path)
    with pytest.raises(native.DafError) as refused:
        native.Session(*paths, budget=1)
    words = str(refused.value).split()
    smallest = int(words[words.index("is", words.index("smallest")) + 1])
    batch = [tensor.numpy() for tensor in resnet.batch]
    for budget in (smallest, smallest + 100_000):
        session = native.Session(*paths, budget=budget)
        for _ in range(2):
            assert np.isfinite(session.step(batch))
            stats = session.store()
            assert 1 <= min(stats["bits"].values()) < 8
            assert stats["committed"] <= stats["budget"]
            assert stats["valid"]
    session = open_session(resnet)
    session.step(batch)
    assert session.trim(smallest + 50_000) == smallest + 50_000
    assert np.isfinite(session.step(batch))
    assert session.store()["peak_used"] > session.store()["budget"] >= session.store()["committed"]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_what_is_not_finite_comes_out_as_in_float32(value: float, resnet: Export, plain_resnet: Export) -> None:
    batch = (plain_resnet.batch[0].clone(), *plain_resnet.batch[1:])
    batch[0][3].view(-1)[7] = value
    expected, found = (gradients(open_session(export), batch) for export in (plain_resnet, resnet))
    for name, gradient in expected.items():
        np.testing.assert_array_equal(np.isfinite(gradient), np.isfinite(found[name]), err_msg=name)
