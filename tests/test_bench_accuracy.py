from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from zoo_settings import SMALL

from daf.errors import UserError
from daf.exporter.load import ModelFile, load_model_file
from daf.tools import bench_accuracy
from daf.tools.bench_accuracy import AccuracyCase
from daf.tools.bench_report import as_json
from daf.tools.bench_step import StepCase


def test_every_kind_is_trained_and_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DAF_DATA_DIR", raising=False)
    digits = AccuracyCase(StepCase("mlp_digits", 32), 60, 0.1)
    elsewhere = AccuracyCase(StepCase("resnet18", 8), 1, 0.1, needs_data=True)
    # Whether the package with its weights is installed or not, they are for width 1.
    half = {"pretrained": "true", "width": "0.5"}
    pretrained = AccuracyCase(StepCase("mobilenet_v2", 8, half), 1, 0.1)
    results = as_json(bench_accuracy.run_bench([digits, elsewhere, pretrained], 1, False, 1))["results"]
    kinds = [result["setting"].split("1 seeds, ")[1].split(", ") for result in results]
    assert [kind[0] for kind in kinds] == ["fp32", "--activations daf", "--activations division", *["2 bits"] * 3]
    assert [kind[1] for kind in kinds[3:]] == ["uniform", "calibrated", "gradient"]
    fp32 = results[0]
    assert fp32["ours"] == pytest.approx(fp32["peer_value"], abs=1.0)
    for result in results:
        assert 60 < result["ours"] <= 100, "it has learned"
    printed = capsys.readouterr().out
    assert "SKIP resnet18: DAF_DATA_DIR is not set" in printed
    assert "SKIP mobilenet_v2: cannot load the pretrained weights" in printed


def test_a_curve_has_programs_of_more_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More room in the pool would not give a program more bits than it was exported with."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case = AccuracyCase(StepCase("cnn_digits", 64), 2, 0.1, calibrate=0)
    settings = [result.setting for result in bench_accuracy.run_bench([case], 1, True, 1)]
    kept = {
        way: float(size)
        for setting in settings
        for way, size in re.findall(r"--activations daf(.*), ([\d.]+) kB kept", setting)
    }
    assert kept[" --bits 4"] > kept[" --bits 3"] > kept[""]


def test_ways_can_be_compared_with_one_of_ours() -> None:
    way, peer = ("--update", "last:2"), ("--update", "last:1")
    case = AccuracyCase(StepCase("mlp_digits", 32), 60, 0.1, ways=(way,), peer=peer)
    (result,) = bench_accuracy.run_bench([case], 1, False, 1)
    assert result.peer == "--update last:1"
    assert "1 seeds, --update last:2, " in result.setting
    assert result.ours != result.peer_value


def test_only_tokens_with_a_target_count() -> None:
    target = np.array([[7, 1, 2, 0], [-100, -100, 3, -100]])
    scores = np.zeros((2, 4, 5), np.float32)
    scores[0, [0, 1, 2], [1, 2, 4]] = 1.0  # right, right, wrong
    scores[1, 1, 3] = 1.0
    scores[:, 3, 2] = 1.0  # nothing follows the last one
    assert bench_accuracy.count(scores, target) == (3, 4)


def test_classes_count_whole_samples() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], np.float32)
    assert bench_accuracy.count(scores, np.array([1, 0, 0])) == (2, 3)


def test_models_with_several_inputs_and_token_targets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts of few words that repeat themselves: on real ones it would take minutes."""
    pytest.importorskip("peft", reason="needs peft: pip install 'daf-mobile[zoo]'")
    small = {name: str(value) for name, value in SMALL["smollm2_lora"].items() if name != "batch_size"} | {"vocab": "8"}
    step = StepCase("smollm2_lora", 4, small, "adamw")
    texts = load_model_file("smollm2_lora", {**small, "batch_size": "10"}).make_batch()
    data = dict(zip(("input_ids", "attention_mask", "target"), texts, strict=True))
    monkeypatch.setattr(ModelFile, "dataset", lambda self, split: data)
    case = AccuracyCase(step, 3, 1e-2, ways=(("--activations", "daf"),), n_test=8)
    fp32, daf = bench_accuracy.run_bench([case], 1, False, 1)
    assert "1 seeds, 8 samples tested, fp32" in fp32.setting
    assert "--activations daf, " in daf.setting
    assert 0 <= daf.ours <= 100
    assert fp32.ours == fp32.peer_value
    assert "a step takes" in capsys.readouterr().err


def test_a_case_is_named_by_its_model() -> None:
    assert [case.step.model for case in bench_accuracy.cases_of("minilm_lora")] == ["minilm_lora"]
    with pytest.raises(UserError, match="choose one of cnn_digits, resnet18, mobilenet_v2, minilm_lora, smollm2_lora"):
        bench_accuracy.cases_of("nothing")


def test_a_budget_between_whole_bits() -> None:
    class Plan:
        raw = {"store": {"entries": [{"n_elements": 131072 * 4}]}}  # noqa: RUF012
        memory = {"arena": 1000, "workspace": 10}  # noqa: RUF012

    one, middle, two = (bench_accuracy._budget(Plan(), bits)[0] for bits in (1.0, 1.5, 2.0))  # type: ignore[arg-type]
    assert one < middle < two
    assert middle == (one + two) // 2
    assert bench_accuracy._budget(Plan(), 1.0)[1] == one + 1010  # type: ignore[arg-type]
