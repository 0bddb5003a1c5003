"""What an exported program contains: a typed reader of `<program>.daf.json`.

Only what the host needs is given a type; `raw` is the whole document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from daf.errors import Exit, UserError

FORMAT = "daf-manifest"
SCHEMA = 1

T = TypeVar("T")


@dataclass(frozen=True)
class TensorInfo:
    name: str
    dtype: str  # as numpy names it: float32, int64, bool, ...
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Method:
    inputs: tuple[TensorInfo, ...]
    runtime_inputs: tuple[str, ...]  # "lr", "clock": fed by the session after the data inputs
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class StateTensor:
    name: str
    kind: str  # parameter, buffer, optimizer, or index (which channels train)
    dtype: str
    shape: tuple[int, ...]
    offset: int  # in memory id 2

    @property
    def is_weight(self) -> bool:
        """Otherwise it is of the training alone."""
        return self.kind in ("parameter", "buffer")


@dataclass(frozen=True)
class Manifest:
    path: Path
    raw: Mapping[str, Any]
    program_sha256: str
    program_size_bytes: int
    model: str
    settings: Mapping[str, Any]
    batch_size: int
    dynamic_batch: bool
    optimizer: Mapping[str, Any]
    methods: Mapping[str, Method]
    state: tuple[StateTensor, ...]
    memory: Mapping[str, int]

    @property
    def train_step(self) -> Method:
        return self.methods["train_step"]

    @property
    def predict(self) -> Method:
        return self.methods["predict"]


def manifest_path(program: Path) -> Path:
    return program.with_name(program.stem + ".daf.json")


def example_path(program: Path) -> Path:
    """The example batch that daf-export writes beside the program."""
    return program.with_name(program.stem + ".example.safetensors")


def read_manifest(path: Path) -> Manifest:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _error(path, "no such file; daf-export writes it beside the program, keep the two together") from None
    except OSError as error:
        raise _error(path, f"{error.strerror}; check the file") from error
    except ValueError as error:  # malformed JSON or UTF-8
        raise _error(path, "it is damaged (not valid JSON); export the program again with daf-export") from error
    return parse_manifest(document, path)


def parse_manifest(document: object, path: Path) -> Manifest:
    """`path` only names the manifest in errors."""
    root = _Node(document, path, "")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _error(path, "it is not a DAF manifest; export the program again with daf-export")
    schema = root.field("schema", int)
    if schema != SCHEMA:
        raise _error(
            path,
            f"it has schema {schema} (written by daf {document.get('daf_version', '?')}) and this version reads schema "
            f"{SCHEMA}; export the program again with this version of daf-export",
        )
    program, model = root.node("program"), root.node("model")
    methods = {name: _method(root.node("methods").node(name)) for name in ("train_step", "predict")}
    return Manifest(
        path=path,
        raw=document,
        program_sha256=program.field("sha256", str),
        program_size_bytes=program.field("size_bytes", int),
        model=model.field("name", str),
        settings=model.field("settings", dict),
        batch_size=root.field("batch_size", int),
        dynamic_batch=root.field("dynamic_batch", bool),
        optimizer=root.field("optimizer", dict),
        methods=methods,
        state=tuple(_state_tensor(item) for item in root.node("state").items("tensors")),
        memory={name: root.node("memory").field(name, int) for name in root.field("memory", dict)},
    )


def program_error(program: Path, reason: str) -> UserError:
    return UserError(f"cannot load {program}: {reason}", Exit.PROGRAM)


class _Node:
    """A JSON object on the way down from the root; errors name the full path of the field."""

    def __init__(self, value: object, path: Path, where: str) -> None:
        self._value, self._path, self._where = value, path, where

    def field(self, name: str, kind: type[T]) -> T:
        where = f"{self._where}.{name}".lstrip(".")
        if not isinstance(self._value, dict) or name not in self._value:
            raise _error(self._path, f"'{where}' is missing; export the program again with daf-export")
        value = self._value[name]
        # bool is an int to Python, but not to a manifest.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _error(
                self._path,
                f"'{where}' is {value!r:.40}, {kind.__name__} expected; export the program again with daf-export",
            )
        return value

    def node(self, name: str) -> _Node:
        return _Node(self.field(name, dict), self._path, f"{self._where}.{name}".lstrip("."))

    def items(self, name: str) -> list[_Node]:
        values = self.field(name, list)
        return [_Node(value, self._path, f"{self._where}.{name}[{i}]".lstrip(".")) for i, value in enumerate(values)]

    def shape(self) -> tuple[int, ...]:
        sizes = self.field("shape", list)
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise _error(self._path, f"'{self._where}.shape' is {sizes}; export the program again with daf-export")
        return tuple(sizes)


def _method(node: _Node) -> Method:
    return Method(
        inputs=tuple(_tensor(item) for item in node.items("inputs")),
        runtime_inputs=tuple(str(name) for name in node.field("runtime_inputs", list)),
        outputs=tuple(_tensor(item) for item in node.items("outputs")),
    )


def _tensor(node: _Node) -> TensorInfo:
    return TensorInfo(node.field("name", str), node.field("dtype", str), node.shape())


def _state_tensor(node: _Node) -> StateTensor:
    return StateTensor(
        name=node.field("name", str),
        kind=node.field("kind", str),
        dtype=node.field("dtype", str),
        shape=node.shape(),
        offset=node.field("offset", int),
    )


def _error(path: Path, reason: str) -> UserError:
    return UserError(f"cannot read {path}: {reason}", Exit.PROGRAM)
