"""What an export leaves on disk: a manifest that is true, and never half of anything."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from training import Export

from daf.errors import Exit, UserError
from daf.exporter.lower import PREDICT, TRAIN
from daf.exporter.write import write_program
from daf.manifest import example_path, manifest_path, read_manifest

Json = dict[str, Any]
N_BYTES = {"float32": 4, "int64": 8}


@pytest.fixture
def manifest(cnn_export: Export) -> Json:
    document: Json = json.loads(cnn_export.written.manifest_path.read_text())
    assert document == cnn_export.written.manifest
    return document


def size_of(tensor: Json) -> int:
    n_elements = torch.Size(tensor["shape"]).numel()
    return n_elements * N_BYTES[tensor["dtype"]]


def test_it_reads_back(cnn_export: Export, manifest: Json) -> None:
    program = cnn_export.written.program
    read = read_manifest(manifest_path(program))
    assert read.program_sha256 == hashlib.sha256(program.read_bytes()).hexdigest()
    assert read.program_size_bytes == program.stat().st_size
    assert (read.model, read.settings) == ("cnn_digits", {"width": 4, "batch_size": 8})
    assert (read.batch_size, read.dynamic_batch) == (8, False)
    assert manifest["program"]["file"] == program.name
    assert (manifest["format"], manifest["schema"]) == ("daf-manifest", 1)
    assert all(manifest[f"{package}_version"] for package in ("daf", "torch", "executorch"))


def test_optimizer_and_parameters(cnn_export: Export, manifest: Json) -> None:
    given = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.001, "nesterov": False}
    assert manifest["optimizer"] == given
    n_parameters = sum(p.numel() for p in cnn_export.model.parameters())
    assert manifest["parameters"] == {"count": n_parameters, "trained": n_parameters}


def test_methods(manifest: Json) -> None:
    x = {"name": "x", "dtype": "float32", "shape": [8, 1, 8, 8]}
    target = {"name": "target", "dtype": "int64", "shape": [8]}
    train, predict = manifest["methods"][TRAIN], manifest["methods"][PREDICT]
    assert train["inputs"] == [x, target]
    assert train["runtime_inputs"] == ["lr", "clock"]
    assert train["outputs"] == [{"name": "loss", "dtype": "float32", "shape": []}]
    assert predict["inputs"] == [x]
    assert predict["runtime_inputs"] == []
    assert predict["outputs"] == [{"name": "output0", "dtype": "float32", "shape": [8, 10]}]


def test_runtime_inputs_are_in_the_programs_order(dropout_export: Export) -> None:
    """Dropout needs the clock before the optimizer asks for the learning rate."""
    methods = dropout_export.written.manifest["methods"]
    assert methods[TRAIN]["runtime_inputs"] == ["clock", "lr"]
    assert methods[PREDICT]["runtime_inputs"] == []


def test_state_has_a_place_for_everything(cnn_export: Export, manifest: Json) -> None:
    state = manifest["state"]
    by_kind: dict[str, set[str]] = {"parameter": set(), "buffer": set(), "optimizer": set()}
    for tensor in state["tensors"]:
        by_kind[tensor["kind"]].add(tensor["name"])
    parameters = {name for name, _ in cnn_export.model.named_parameters()}
    assert by_kind["parameter"] == parameters
    assert by_kind["buffer"] == {name for name, _ in cnn_export.model.named_buffers()}
    assert by_kind["optimizer"] == {f"{name}.momentum_buffer" for name in parameters}
    values = cnn_export.model.state_dict()
    for tensor in state["tensors"]:
        if tensor["kind"] == "optimizer":
            assert tensor["name"] == f"{tensor['parameter']}.{tensor['slot']}"
        shape = values[tensor.get("parameter", tensor["name"])].shape
        assert tensor["shape"] == list(shape)


def test_state_lies_apart_inside_its_memory(manifest: Json) -> None:
    state = manifest["state"]
    assert state["memory_id"] == 2
    ranges = sorted((tensor["offset"], tensor["offset"] + size_of(tensor)) for tensor in state["tensors"])
    assert ranges[0][0] >= 0
    assert ranges[-1][1] <= state["size_bytes"]
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ranges))


def test_phases_add_up_to_the_instructions(cnn_export: Export, manifest: Json) -> None:
    phases = manifest["methods"][TRAIN]["phases"]
    instructions = cnn_export.lowered.plans[TRAIN].chains[0].instructions
    assert sum(n for _, n in phases) == len(instructions)
    names = [name for name, _ in phases]
    assert names[:2] == ["forward", "backward"]
    assert "forward" not in names[1:], "forward comes first, and once"
    assert all(a != b for a, b in itertools.pairwise(names)), "runs are as long as they can be"
    n_parameters = len(list(cnn_export.model.parameters()))
    assert sum(n for name, n in phases if name == "update") >= n_parameters


def test_activations(cnn_export: Export, manifest: Json) -> None:
    assert manifest["activations"]["mode"] == "fp32"
    kept = manifest["activations"]["kept"]
    assert [(k["name"], k["module"], k["raw_bytes"]) for k in kept] == [
        (saved.name, saved.module, saved.raw_bytes) for saved in cnn_export.saved
    ]
    assert all(k["stored_bytes"] == k["raw_bytes"] and k["scheme"] == "keep" for k in kept)
    assert {"float32", "uint8"} == {k["dtype"] for k in kept}
    assert "block1.conv" in {k["module"] for k in kept}


def test_memory_is_the_sum_of_its_parts(cnn_export: Export, manifest: Json) -> None:
    memory = manifest["memory"]
    assert memory["peak"] == sum(
        memory[part] for part in ("weights", "constants", "optimizer", "arena", "workspace", "batch", "runtime")
    )
    state = cnn_export.model.state_dict()
    assert memory["weights"] == sum(value.numel() * value.element_size() for value in state.values())
    assert memory["optimizer"] == sum(p.numel() * 4 for p in cnn_export.model.parameters())
    assert memory["activations"] == sum(saved.raw_bytes for saved in cnn_export.saved)
    assert memory["gradients"] == max(p.numel() * 4 for p in cnn_export.model.parameters())
    assert memory["arena"] > memory["activations"]


def test_example_batch_reads_back(cnn_export: Export) -> None:
    example = load_file(example_path(cnn_export.written.program))
    assert set(example) == {"x", "target"}
    assert torch.equal(example["x"], cnn_export.batch[0])
    assert torch.equal(example["target"], cnn_export.batch[1])


# ---- all or nothing ---------------------------------------------------------------------------------------------


def write_to(export: Export, output: Path) -> None:
    write_program(replace(export, options=replace(export.options, output=output)))


def older_export(output: Path) -> dict[str, bytes]:
    for path in (output, manifest_path(output), example_path(output)):
        path.write_bytes(b"older")
    return contents(output.parent)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# The program needs 8 pages of 4 kB, the example one, the manifest 3.
@pytest.mark.parametrize("free_pages", [0, 4, 8, 10])
def test_a_full_disk_leaves_the_older_export(cnn_export: Export, small_disk: Path, free_pages: int) -> None:
    output = small_disk / "cnn.pte"
    older_export(output)
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((disk.f_bavail - free_pages) * disk.f_frsize))
    before = contents(small_disk)
    with pytest.raises(UserError, match="the disk is full") as caught:
        write_to(cnn_export, output)
    assert caught.value.exit_code == Exit.OUTPUT
    assert contents(small_disk) == before


def test_a_read_only_disk_leaves_the_older_export(cnn_export: Export, small_disk: Path) -> None:
    output = small_disk / "cnn.pte"
    before = older_export(output)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(UserError, match="read-only") as caught:
        write_to(cnn_export, output)
    assert caught.value.exit_code == Exit.OUTPUT
    assert contents(small_disk) == before


def test_a_newer_export_replaces_the_older(cnn_export: Export, tmp_path: Path) -> None:
    output = tmp_path / "cnn.pte"
    older_export(output)
    write_to(cnn_export, output)
    assert output.read_bytes() == cnn_export.written.program.read_bytes()
    assert read_manifest(manifest_path(output)).raw["program"]["file"] == "cnn.pte"
    assert sorted(contents(tmp_path)) == ["cnn.daf.json", "cnn.example.safetensors", "cnn.pte"]
