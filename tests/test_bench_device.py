from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daf.tools import bench_device
from daf.tools.adb.bundle import runners_folder
from daf.tools.bench_results import Result
from daf.tools.bench_step import StepCase, export_case, shared_exports
from daf.tools.emulated_device import PLATFORM

CASE = StepCase("cnn_digits", 4, {"width": "4"})


def by_mode(results: list[Result]) -> dict[str, dict[tuple[str, str], Result]]:
    """By mode, then by name and peer."""
    return {
        mode: {(r.name.removeprefix("cnn_digits, "), r.peer): r for r in results if f", {mode}, " in r.setting}
        for mode in bench_device.MODES
    }


def test_this_machine_as_a_device() -> None:
    results = by_mode(bench_device.run_bench(CASE, "local", 1))
    assert [len(of_mode) for of_mode in results.values()] == [3, 4]
    for of_mode in results.values():
        held = of_mode["memory held", "predicted"]
        assert 0.9 < held.ratio <= 1.01
        assert of_mode["peak RSS", "predicted"].ours > 0
        assert "on local (" in held.setting
    assert results["daf"]["step on a device", "fp32 on the same device"].unit == "ms"


def test_an_emulated_device() -> None:
    if shutil.which("qemu-aarch64-static") is None:
        pytest.skip("no emulator (Debian: apt-get install qemu-user-static)")
    if not (runners_folder() / PLATFORM / "daf_runner").exists():
        pytest.skip("no runner for arm64; build it with `make runner-arm64`")
    results = bench_device.run_bench(CASE, "qemu", 1)
    assert all("aarch64" in result.setting for result in results)
    step = next(result for result in results if result.peer.startswith("local ("))
    assert "aarch64" not in step.peer
    assert step.ratio > 1, "an emulator is slower"
    assert not any("RSS" in result.name for result in results), "its resident memory is the emulator's"


def test_an_export_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from daf.tools import bench_step

    exported: list[str] = []
    real = bench_step._export
    monkeypatch.setattr(bench_step, "_export", lambda words, path: (exported.append(path.name), real(words, path)))
    with shared_exports():
        first, again = (export_case(CASE, tmp_path / name) for name in ("a.pte", "b.pte"))
    assert exported == ["0.pte"]
    assert first.raw == again.raw
    bench_step.open_session(tmp_path / "b.pte").step(  # its files are whole
        [tensor.numpy() for tensor in bench_step.load_model_file(CASE.model, CASE.all_settings).make_batch()]
    )
    export_case(CASE, tmp_path / "c.pte")
    assert exported == ["0.pte", "c.pte"], "outside, each has its own"
