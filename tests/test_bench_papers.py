from __future__ import annotations

import pytest
import torch

from daf.exporter.load import load_model_file
from daf.tools import bench_papers, bench_step
from daf.tools.eager_memory import checkpoint_blocks


def test_every_way_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_papers, "MIN_SLICE_S", 0.0)
    case = bench_step.StepCase("resnet18", 4, {"width": "8"})
    results = bench_papers.run_bench([case], 1)
    ways = [*bench_papers.WAYS, bench_papers.CHECKPOINTING]
    assert len(results) == 3 * len(ways)
    kept = [result for result in results if "kept" in result.name]
    by_way = {way: result.ratio for way, result in zip(ways, kept, strict=True)}
    assert 0.8 < by_way["fp32"] < 1.05
    assert by_way["daf"] < by_way["division"] < 0.5
    assert by_way["daf and sparse"] <= by_way["sparse"] < 0.1
    assert 0.05 < by_way[bench_papers.CHECKPOINTING] < 0.7
    assert "DAF: up to 22.9x less" in kept[1].setting


def test_checkpointing_changes_no_gradient() -> None:
    model_file = load_model_file("resnet18", {"width": "4", "batch_size": "2"})
    batch = model_file.make_batch()
    gradients = []
    for checkpointing in (False, True):
        network = model_file.make_model().train()
        if checkpointing:
            checkpoint_blocks(network, {})
        model_file.loss(network(*batch[:-1]), batch[-1]).backward()
        gradients.append([p.grad for p in network.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert plain is not None
        assert again is not None
        torch.testing.assert_close(again, plain)
