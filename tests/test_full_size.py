"""Full-size models: they export, and their step is right. Minutes each, several GB; `make test-full` runs them."""

from __future__ import annotations

import itertools
import resource
import time
from pathlib import Path

import pytest
from training import Options, export_model, export_program, load_model_file

from daf.exporter.check import check
from daf.exporter.fuse_optimizer import AdamW, Optimizer, Sgd

pytestmark = pytest.mark.full

CASES: dict[str, tuple[str, dict[str, object], Optimizer]] = {
    "resnet18_batch_32": ("resnet18", {"batch_size": 32}, Sgd()),
    "resnet50_batch_4": ("resnet50", {"batch_size": 4}, Sgd()),
    "roberta_base_lora_8x128": ("roberta_lora", {"batch_size": 8, "sequence_length": 128}, AdamW()),
    "gpt2_medium_lora_2x128": ("gpt2_lora", {"batch_size": 2, "sequence_length": 128}, AdamW()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_takes_a_correct_step(case: tuple[str, dict[str, object], Optimizer], tmp_path: Path) -> None:
    model, settings, optimizer = case
    started = time.monotonic()
    export = export_model(model, tmp_path, optimizer, settings)
    seconds = time.monotonic() - started
    result = check(export)
    assert result.loss_error < 1e-4
    assert result.passed, (result.worst, result.eager_error)
    nodes = len(export.programs["train_step"].graph.nodes)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"\n{model}: {nodes} nodes, exported in {seconds:.0f} s, peak RSS {peak_mb:.0f} MB")
    print(f"gradient error {result.worst[1]:.1e} in {result.worst[0]}, eager's own {result.eager_error:.1e}")


@pytest.mark.parametrize("model", ["resnet18", "resnet50"])
def test_division_keeps_a_tenth_of_the_activations_at_batch_64(model: str, tmp_path: Path) -> None:
    """The paper has 10.5x for ResNet-50 at 224x224."""
    file = load_model_file(model, {"batch_size": "64"})
    export = export_program(Options(file, tmp_path / "p.pte", Sgd(), activations="division"))
    assert export.written is not None
    kept, memory = export.written.manifest["activations"]["kept"], export.written.manifest["memory"]
    raw = sum(each["raw_bytes"] for each in kept)
    print(f"\n{model}: activations {raw / 2**30:.3f} GiB in {memory['activations'] / 2**30:.3f} GiB")
    print(f"{raw / memory['activations']:.1f}x less, pages of the pool included; peak {memory['peak'] / 2**30:.2f} GiB")
    assert raw / memory["activations"] >= 10


def test_export_grows_linearly_with_the_number_of_nodes(tmp_path: Path) -> None:
    """Measures, and checks only the number of nodes: time on a shared machine is no test."""
    rows = []
    for layers in (2, 4, 8):
        started = time.monotonic()
        settings = {"layers": layers, "hidden": 64, "heads": 2, "vocab": 128, "sequence_length": 16, "batch_size": 2}
        export = export_model("roberta_lora", tmp_path, AdamW(), settings)
        rows.append((layers, len(export.programs["train_step"].graph.nodes), time.monotonic() - started))
    for layers, nodes, seconds in rows:
        print(f"\n{layers} layers: {nodes} nodes, {seconds:.1f} s, {1e3 * seconds / nodes:.1f} ms per node")
    per_layer = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(rows)]
    assert per_layer[1] == pytest.approx(per_layer[0], rel=0.05)  # large gradients are made in blocks
