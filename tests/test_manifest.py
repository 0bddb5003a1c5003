from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from daf.errors import Exit, UserError
from daf.manifest import TensorInfo, example_path, manifest_path, parse_manifest, read_manifest

X = {"name": "x", "dtype": "float32", "shape": [8, 4]}
TARGET = {"name": "target", "dtype": "int64", "shape": [8]}
DOCUMENT: dict[str, Any] = {
    "format": "daf-manifest",
    "schema": 1,
    "daf_version": "0.1.0",
    "program": {"file": "m.pte", "size_bytes": 100, "sha256": "00ff"},
    "model": {"name": "mlp", "settings": {"width": 16}},
    "batch_size": 8,
    "dynamic_batch": False,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "methods": {
        "train_step": {
            "inputs": [X, TARGET],
            "runtime_inputs": ["lr"],
            "outputs": [{"name": "loss", "dtype": "float32", "shape": []}],
        },
        "predict": {
            "inputs": [X],
            "runtime_inputs": [],
            "outputs": [{"name": "output0", "dtype": "float32", "shape": [8, 10]}],
        },
    },
    "state": {
        "memory_id": 2,
        "size_bytes": 160,
        "tensors": [{"name": "fc.weight", "kind": "parameter", "dtype": "float32", "shape": [10, 4], "offset": 0}],
    },
    "memory": {"weights": 160, "arena": 640},
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The document with one field replaced, or removed if the value is None."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path.split(".")
    node: Any = document
    for name in parents:
        node = node[int(name) if name.isdigit() else name]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return document


def test_reads_what_the_host_needs(tmp_path: Path) -> None:
    path = tmp_path / "m.daf.json"
    path.write_text(json.dumps(DOCUMENT))
    manifest = read_manifest(path)
    assert manifest.model == "mlp"
    assert manifest.train_step.inputs == (TensorInfo("x", "float32", (8, 4)), TensorInfo("target", "int64", (8,)))
    assert manifest.train_step.runtime_inputs == ("lr",)
    assert [tensor.name for tensor in manifest.predict.outputs] == ["output0"]
    assert [(tensor.name, tensor.kind) for tensor in manifest.state] == [("fc.weight", "parameter")]
    assert manifest.memory == {"weights": 160, "arena": 640}
    assert manifest.raw == DOCUMENT


def test_files_beside_a_program() -> None:
    assert manifest_path(Path("a/r.v2.pte")) == Path("a/r.v2.daf.json")
    assert example_path(Path("a/r.pte")) == Path("a/r.example.safetensors")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a DAF manifest"),
        ({"format": "other"}, "not a DAF manifest"),
        (changed("schema", 2), "it has schema 2 .*this version reads schema 1"),
        (changed("batch_size", None), "'batch_size' is missing"),
        (changed("batch_size", True), "'batch_size' is True, int expected"),
        (changed("dynamic_batch", 0), "'dynamic_batch' is 0, bool expected"),
        (changed("program.sha256", None), "'program.sha256' is missing"),
        (changed("methods.predict", None), "'methods.predict' is missing"),
        (changed("methods.train_step.inputs.0.shape", ["a"]), r"'methods.train_step.inputs\[0\].shape' is"),
        (changed("state.tensors.0.offset", "0"), r"'state.tensors\[0\].offset' is '0', int expected"),
        (changed("memory.arena", "big"), "'memory.arena' is 'big', int expected"),
    ],
)
def test_a_bad_manifest_is_named_with_its_field(document: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_manifest(document, Path("m.daf.json"))
    assert caught.value.exit_code == Exit.PROGRAM
    assert str(caught.value).startswith("cannot read m.daf.json: ")
    assert "daf-export" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_unreadable_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.daf.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match="it is damaged") as caught:
        read_manifest(path)
    assert caught.value.exit_code == Exit.PROGRAM


def test_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file") as caught:
        read_manifest(tmp_path / "m.daf.json")
    assert caught.value.exit_code == Exit.PROGRAM
