from __future__ import annotations

import pytest

from daf.tools import bench_store
from daf.tools.bench_report import as_json

TINY = bench_store.Effort(
    n_elements=1000, repeats=2, n_pages=(10, 100), n_operations=50, n_fragmentation_steps=3, n_store_steps=3
)


def test_everything_is_compared_with_a_peer() -> None:
    results = as_json(bench_store.run_bench(TINY))["results"]
    for result in results:
        assert result["ratio"] == pytest.approx(result["ours"] / result["peer_value"])
        assert result["ours"] > 0
    names = [result["name"] for result in results]
    assert names.count("pack") == names.count("unpack") == 8
    assert names.count("free and take a page") == names.count("drop the cheapest plane") == 2
    assert names.count("memory in pages") == 6
    assert names.count("store and read a step") == 3
    assert names.count("first step") == names.count("memory committed") == 3


def test_pages_waste_little() -> None:
    used = bench_store._native.bench_fragmentation(20, 16384, True)[0]
    assert 1 <= used <= 1.05
