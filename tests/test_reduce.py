"""Runs with --reduce vulkan and opencl, on drivers that need no GPU: same losses, one warning when they fail."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import daf, daf_export

from daf.tools import bench_reduce
from daf.tools.bench_report import as_json

LAVAPIPE = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd.*.json"))
POCL = Path("/etc/OpenCL/vendors/pocl.icd")
# Each driver by itself, and its package.
DRIVERS: dict[str, tuple[dict[str, str], str]] = {
    "vulkan": ({"VK_ICD_FILENAMES": str(LAVAPIPE[0]) if LAVAPIPE else ""}, "mesa-vulkan-drivers"),
    "opencl": ({"OCL_ICD_VENDORS": str(POCL) if POCL.exists() else ""}, "pocl-opencl-icd"),
}
NO_DRIVERS = {"VK_ICD_FILENAMES": "/nonexistent.json", "OCL_ICD_VENDORS": "/nonexistent"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reduce") / "cnn.pte"
    done = daf_export("cnn_digits", "--batch-size", "32", "--activations", "daf", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def use_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def use(backend: str) -> None:
        variables, package = DRIVERS[backend]
        if not all(variables.values()):
            pytest.skip(f"no driver to test with (Debian: apt-get install {package})")
        set_all(NO_DRIVERS)
        set_all(variables)

    def set_all(variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    set_all({**NO_DRIVERS, "POCL_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    return use


class Run:
    """Five steps, and what the trace says of them."""

    def __init__(self, program: Path, folder: Path, *arguments: str) -> None:
        trace = folder / "run.trace"
        done = daf("run", program, "--steps", 5, "--trace", trace, *arguments)
        assert done.returncode == 0, done.stderr
        self.warnings = [line for line in done.stderr.splitlines() if line.startswith("warning:")]
        rows = [json.loads(line) for line in trace.read_text().splitlines()]
        self.losses = [row["loss"] for row in rows if row["type"] == "step"]
        self.events = {row["event"]: row for row in rows if row["type"] == "event"}
        self.n_fallbacks = sum(row.get("event") == "reduce_fallback" for row in rows)
        trace.unlink()


@pytest.fixture(scope="module")
def expected(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(program, tmp_path_factory.mktemp("expected"), "--reduce", "cpu")


@pytest.mark.parametrize("backend", DRIVERS)
def test_losses_have_the_same_bits(backend: str, program: Path, expected: Run, tmp_path: Path, use_driver: Any) -> None:
    use_driver(backend)
    found = Run(program, tmp_path, "--reduce", backend)
    assert found.losses == expected.losses
    assert found.warnings == expected.warnings == []
    probed = found.events["reduce"]["probed"]
    assert [(device["backend"], device["used"]) for device in probed] == [(backend, True)]
    assert found.events["reduce"]["shares_pool"]
    uses = found.events["reduce_use"]["uses"]
    assert {use.split()[0] for use in uses} == {"encode", "decode"}
    assert all(use.split()[1] == backend for use in uses)
    assert found.events["reduce_use"]["copied_bytes"] > 0
    assert expected.events["reduce"]["probed"] == []


def test_under_a_budget_too(program: Path, expected: Run, tmp_path: Path, use_driver: Any) -> None:
    use_driver("vulkan")
    refused = daf("run", program, "--steps", 1, "--budget", "100kB")
    budget = refused.stderr.rsplit("smallest budget is ", 1)[1].split()[0]
    tight = Run(program, tmp_path, "--budget", budget, "--reduce", "cpu")
    assert tight.losses != expected.losses  # of fewer bits
    assert Run(program, tmp_path, "--budget", budget, "--reduce", "vulkan").losses == tight.losses


@pytest.mark.parametrize("backend", DRIVERS)
def test_without_a_driver_the_cpu_takes_over(
    backend: str, program: Path, expected: Run, tmp_path: Path, use_driver: Any
) -> None:
    found = Run(program, tmp_path, "--reduce", backend)
    assert found.losses == expected.losses
    assert len(found.warnings) == found.n_fallbacks == 1
    assert "no driver" in found.warnings[0]
    assert not found.events["reduce"]["uses_gpu"]


@pytest.mark.parametrize("backend", DRIVERS)
def test_a_lost_device_is_survived(
    backend: str, program: Path, expected: Run, tmp_path: Path, use_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver(backend)
    monkeypatch.setenv("DAF_GPU_FAIL_AT_CALL", "22")  # after the checks at the start, in the middle of a step
    found = Run(program, tmp_path, "--reduce", backend)
    assert found.losses == expected.losses
    assert len(found.warnings) == found.n_fallbacks == 1
    assert "lost" in found.warnings[0]
    uses = found.events["reduce_use"]["uses"]
    assert {use.split()[1] for use in uses} == {backend, "cpu"}


def test_auto_loads_no_driver_without_a_gpu(program: Path, tmp_path: Path, use_driver: Any) -> None:
    if any(Path("/dev").glob("dri/renderD*")):
        pytest.skip("this machine has a GPU")
    use_driver("vulkan")
    found = Run(program, tmp_path)
    assert found.events["reduce"]["mode"] == "auto"
    assert found.events["reduce"]["probed"] == []
    assert not found.warnings


@pytest.mark.parametrize("backend", DRIVERS)
def test_doctor_shows_what_there_is(backend: str, use_driver: Any) -> None:
    use_driver(backend)
    checks = {check["name"]: check for check in json.loads(daf("doctor", "--json").stdout)["checks"]}
    other = next(name for name in DRIVERS if name != backend)
    assert checks[backend]["status"] == "ok"
    assert f"this CPU, only used by --reduce {backend}" in checks[backend]["detail"]
    assert checks[other]["status"] == "missing"
    assert "no driver is installed" in checks[other]["detail"]


def test_tune_writes_what_runs_read(
    program: Path, tmp_path: Path, use_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = daf("tune")
    assert refused.returncode == 9
    assert refused.stderr.startswith("error: cannot tune local: no GPU")

    use_driver("vulkan")
    from daf import native

    sizes: list[int] = []
    path = tmp_path / "new" / "table.json"
    key = native.tune_reduce(str(path), [4096, 20480], True, sizes.append)
    assert sizes == [4096, 20480]
    table = json.loads(path.read_text())
    assert (table["format"], table["schema"]) == ("daf-reduce-table", 1)
    entries = table["devices"][key]
    assert {(entry["op"], entry["size"]) for entry in entries} == {
        (op, size) for op in ("ranges", "decode") for size in (4096, 20480)
    }
    for entry in entries:
        assert {"cpu", "vulkan tree"} <= set(entry["ns"])
        assert all(time > 0 for time in entry["ns"].values())


def test_the_runner_tunes_its_device(runner: Path, tmp_path: Path, use_driver: Any) -> None:
    """What `daf tune --device adb` starts there."""

    def tune() -> list[dict[str, Any]]:
        command = [runner, "--tune", tmp_path / "table.json", "--software"]
        # Its standard input stays open: the end of it would mean that the host is gone.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            return [json.loads(line) for line in process.stdout]

    *_, table, exit_row = tune()
    assert (table, exit_row["code"]) == ({"type": "table", "device": ""}, 0)
    assert not (tmp_path / "table.json").exists()

    use_driver("vulkan")
    rows = tune()
    from daf import native

    assert [row["size"] for row in rows if row["type"] == "tuned"] == native.tuned_sizes()
    (device,) = [row["device"] for row in rows if row["type"] == "table"]
    assert list(json.loads((tmp_path / "table.json").read_text())["devices"]) == [device]


def test_bench_says_on_which_hardware(use_driver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    use_driver("vulkan")
    results = as_json(bench_reduce.run_bench(["vulkan", "opencl"], [5000], 2))["results"]
    output = capsys.readouterr().out
    assert "software: the CPU itself" in output
    assert {result["peer"] for result in results} == {"CPU kernels", "plain read"}
    assert {result["name"] for result in results} == set(bench_reduce.OPS.values())
    settings = {result["setting"] for result in results if result["name"] == "range of a tensor"}
    for variant in ("vulkan tree", "vulkan atomic vec4", "vulkan tree vec4 subgroup"):
        assert f"5,000 values, {variant}, shared memory" in settings
