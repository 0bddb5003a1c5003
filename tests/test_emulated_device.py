"""The runner for arm64, emulated: it trains as this machine does, and stores the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import daf, daf_export
from safetensors.numpy import load_file
from zoo_settings import SMALL

from daf.tools.adb.bundle import runners_folder
from daf.tools.emulated_device import PLATFORM

OPTIMIZERS = {"cnn_digits": ("sgd", "0.05"), "resnet18": ("sgd", "0.05"), "minilm_lora": ("adamw", "0.001")}


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> None:
    if shutil.which("qemu-aarch64-static") is None:
        pytest.skip("no emulator (Debian: apt-get install qemu-user-static)")
    if not (runners_folder() / PLATFORM / "daf_runner").exists():
        pytest.skip("no runner for arm64; build it with `make runner-arm64`")


def export_small(model: str, activations: str, folder: Path) -> Path:
    program = folder / "p.pte"
    optimizer, lr = OPTIMIZERS[model]
    settings = [word for name, value in SMALL[model].items() for word in ("--set", f"{name}={value}")]
    options = ["--optimizer", optimizer, "--lr", lr, "--activations", activations, "-o", program]
    done = daf_export(model, *settings, *options)
    assert done.returncode == 0, done.stderr
    return program


def train(program: Path, device: str, steps: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of the trace, and the weights."""
    trace, weights = program.with_name(f"{device}.trace"), program.with_name(f"{device}.safetensors")
    done = daf("run", program, "--steps", steps, "--device", device, "--trace", trace, "--save", weights)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in trace.read_text().splitlines()], load_file(weights)


def store_events(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was stored in how many bits and bytes, and what was dropped, in order."""
    return [{**row, "t_us": 0} for row in rows if row["type"] == "event" and "stored_bytes" in row]


# A compressed ResNet only for the step before anything stored is read: from then on a last bit that differs is, now and
# then, a whole step of the quantizer.
@pytest.mark.parametrize(
    ("model", "activations", "steps"),
    [("cnn_digits", "daf", 20), ("minilm_lora", "daf", 20), ("resnet18", "fp32", 20), ("resnet18", "daf", 1)],
)
def test_trains_as_this_machine_does(model: str, activations: str, steps: int, tmp_path: Path) -> None:
    program = export_small(model, activations, tmp_path)
    here, here_weights = train(program, "local", steps)
    there, there_weights = train(program, "qemu", steps)
    assert (here[0]["device"]["abi"], there[0]["device"]["abi"]) == ("x86_64", "aarch64")
    losses = [[row["loss"] for row in rows if row["type"] == "step"] for rows in (here, there)]
    assert len(losses[0]) == steps
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=1e-5)
    assert bool(store_events(here)) == (activations == "daf")
    assert store_events(there) == store_events(here)
    assert there_weights.keys() == here_weights.keys()
    for name, expected in here_weights.items():
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(there_weights[name], expected, rtol=0, atol=1e-3 * scale, err_msg=name)


def test_errors_are_those_of_the_runner(tmp_path: Path, cnn_program: Path) -> None:
    for path in cnn_program.parent.iterdir():
        shutil.copy(path, tmp_path)
    program = tmp_path / cnn_program.name
    data = bytearray(program.read_bytes())
    data[-1000] ^= 1
    program.write_bytes(data)
    done = daf("run", program, "--steps", 1, "--device", "qemu")
    assert done.returncode == 5
    assert done.stderr.startswith("error: cannot load")
    assert "Traceback" not in done.stderr
