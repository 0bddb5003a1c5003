from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from daf.tools import bench_memory, bench_step
from daf.tools.bench_report import as_json
from daf.tools.eager_memory import QuantizedSavedTensors, measure_eager


def test_kept_for_backward_peak_and_time_have_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "MIN_SLICE_S", 0.0)
    case = bench_step.StepCase("resnet18", 4, {"width": "8"})
    results = as_json(bench_memory.run_bench([case], None, 1))["results"]
    kept = {result["setting"]: result for result in results if "kept" in result["name"]}
    fp32, daf = kept["width=8, batch 4, fp32"], kept["width=8, batch 4, daf"]
    assert 0.8 < fp32["ratio"] < 1.05, "the fp32 program keeps what PyTorch keeps"
    assert daf["ratio"] < kept["width=8, batch 4, division"]["ratio"] < 0.1
    assert [result["peer"] for result in results if result["unit"] == "ms"] == [
        *["fp32 program"] * 3,  # a step of daf, one of division, and one of daf that measures
        bench_memory.PYTORCH,
        "PyTorch, 2 bits in saved-tensor hooks",
        "PyTorch, 2 bits in saved-tensor hooks",
    ]
    assert sum("peak RSS" in result["name"] for result in results) == 3


def test_eager_counts_every_saved_storage_once() -> None:
    found = measure_eager(
        "mlp_digits",
        {"width": "2048", "batch_size": "1024"},
        {"name": "sgd", "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False},
        1,
    )
    outputs = 4 * 1024 * (2048 + 10)  # of ReLU, which its own backward and the next layer's need, and of log_softmax
    assert outputs <= found.saved_bytes < 1.1 * outputs
    assert found.peak_bytes > found.saved_bytes


def test_the_naive_way_rounds_to_the_bits_it_has() -> None:
    """Gradients are near those of float32, and not the same."""
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 64), torch.randn(128, 64)
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None
    exact = layer.weight.grad.clone()
    layer.weight.grad = None
    with QuantizedSavedTensors(layer, 2):
        loss = layer(x).square().sum()
    loss.backward()
    error = (layer.weight.grad - exact).norm() / exact.norm()
    assert 0.01 < error < 1
