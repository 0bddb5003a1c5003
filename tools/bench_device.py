"""The measurement of `daf bench device`: what a device makes of a small program, beside this machine and the plan."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daf import native
from daf.manifest import Manifest, example_path
from daf.tools.bench_results import Result, say
from daf.tools.bench_step import StepCase, export_case
from daf.tools.progress import Progress
from daf.tools.run import make_request, report_failure, run_on_device
from daf.tools.trace.rows import PARTS

CASE = StepCase("resnet18", 8, {"width": "16"})
QUICK_CASE = StepCase("cnn_digits", 32, {"width": "64"})
MODES: dict[str, tuple[str, ...]] = {"fp32": (), "daf": ("--activations", "daf")}
STEPS = 20


class _Run(Progress):
    """The rows of a run, which nobody sees."""

    def __init__(self) -> None:
        super().__init__(STEPS, first_step=0, quiet=True)
        self.rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        super().add(row)
        self.rows.append(row)

    @property
    def device(self) -> str:
        facts = self.rows[0]["device"]
        return ", ".join(dict.fromkeys(str(facts[name]) for name in ("model", "soc", "abi") if facts.get(name)))

    @property
    def step_ms(self) -> float:
        return statistics.median(self.stats.step_us) / 1000


@dataclass(frozen=True)
class _Program:
    path: Path
    manifest: Manifest

    def run(self, device: str) -> _Run:
        """In one thread."""
        request = make_request(self.path, self.manifest, steps=STEPS, data=example_path(self.path), device=device)
        run = _Run()
        report_failure(run_on_device(request, run, threads=1), run.stats, None)
        return run


def run_bench(case: StepCase, device: str, repeats: int) -> list[Result]:
    native.set_threads(1)  # for which memory is predicted
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        for mode, options in MODES.items():
            path = Path(folder) / f"{mode}.pte"
            programs[mode] = _Program(path, export_case(case, path, *options))
        say(f"{case.model}, {case.setting}, on {device}")
        # By turns, so that whatever else the machine does falls on all.
        rounds = [
            {mode: (program.run(device), program.run("local")) for mode, program in programs.items()}
            for _ in range(repeats)
        ]
    return [result for mode in MODES for result in _results(case, device, mode, programs[mode].manifest, rounds)]


def _results(
    case: StepCase, device: str, mode: str, manifest: Manifest, rounds: list[dict[str, tuple[_Run, _Run]]]
) -> Iterator[Result]:
    there, here = ([by_mode[mode][side] for by_mode in rounds] for side in (0, 1))
    setting = f"{case.setting}, {mode}, 1 thread, on {device} ({there[0].device})"

    def times(peer: str, peers: list[_Run]) -> Result:
        values = [run.step_ms for run in there], [run.step_ms for run in peers]
        return Result.of_repeats(f"{case.model}, step on a device", setting, values[0], peer, values[1], "ms")

    yield times(f"local ({here[0].device})", here)
    if mode != "fp32":
        yield times("fp32 on the same device", [by_mode["fp32"][0] for by_mode in rounds])
    plan, last = manifest.memory, there[-1].stats
    held, planned = (sum(sizes.get(part, 0) for part in PARTS) for sizes in (last.peak, plan))
    yield _megabytes(f"{case.model}, memory held", setting, held, planned)
    if device != "qemu":  # whose resident memory is the emulator's
        peak = last.peak_rss_bytes - last.rss_baseline_bytes
        yield _megabytes(f"{case.model}, peak RSS", setting, peak, plan["peak"])


def _megabytes(name: str, setting: str, measured: int, predicted: int) -> Result:
    return Result(name, setting, measured / 1e6, "predicted", predicted / 1e6, "MB", 0.0)
