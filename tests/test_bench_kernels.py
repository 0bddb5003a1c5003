from __future__ import annotations

from pathlib import Path

import pytest

from daf.tools import bench_kernels
from daf.tools.bench_report import as_json


def test_every_kernel_is_compared_with_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_kernels, "MIN_SLICE_S", 0.0)
    monkeypatch.setattr(bench_kernels, "SQUARES", (16,))
    monkeypatch.setattr(bench_kernels, "ZOO_PRODUCTS", ((8, 9, 10),))
    layer = bench_kernels.Layer((1, 4, 5, 5), (6, 4, 3, 3), (1, 6, 5, 5), 1, 1, 1)
    monkeypatch.setattr(bench_kernels, "_layers", lambda model, settings: bench_kernels.Counter({layer: 2}))
    results = as_json(bench_kernels.run_bench([1], 1, False))["results"]
    by_name = {result["name"] for result in results}
    assert {"gemm", "convolution forward", "convolutions backward", "layer_norm backward", "adamw"} <= by_name
    assert all(result["ratio"] == pytest.approx(result["ours"] / result["peer_value"]) for result in results)
    (layer_backward,) = [r for r in results if r["name"] == "convolution backward"][:1]
    assert layer_backward["setting"] == "1x4x5x5 -> 6, 3x3, stride 1, 1 thread"


def test_finds_the_convolutions_of_a_model() -> None:
    layers = bench_kernels._layers("cnn_digits", {"batch_size": "2"})
    assert layers
    assert all(layer.x[0] == 2 and layer.gflop > 0 for layer in layers)
