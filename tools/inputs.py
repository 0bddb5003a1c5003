"""Checks, before anything runs, that files fit a program: the program itself, its data, its weights.

The session checks again on the device. Here it is done on headers only, so that a mistake costs neither a push to a
phone nor a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from daf.errors import Exit, UserError
from daf.manifest import Manifest, TensorInfo, manifest_path, program_error, read_manifest

_NUMPY_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}


@dataclass(frozen=True)
class TensorFile:
    """The header of a safetensors file."""

    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]


class FileProblem(Exception):
    """What is wrong with a tensor file, and the next step; the caller knows what it was wanted for."""


def load_program(program: Path) -> Manifest:
    """The manifest of a program that is there; the session will find out whether it is damaged."""
    if not program.is_file():
        problem = "it is a folder; give a .pte file" if program.is_dir() else "no such file; make one with daf-export"
        raise program_error(program, problem)
    return read_manifest(manifest_path(program))


def check_data(path: Path, inputs: Iterable[TensorInfo], *, min_samples: int, extra: Iterable[str] = ()) -> TensorFile:
    """Fails unless `path` has these inputs, for enough samples, and nothing else but what `extra` names."""
    try:
        file = read_header(path)
        _check_samples(file, list(inputs), min_samples, set(extra))
        return file
    except FileProblem as problem:
        raise UserError(f"cannot use data {path}: {problem}", Exit.DATA) from None


def check_weights(path: Path, manifest: Manifest) -> TensorFile:
    """Fails unless `path` has every weight that the program trains. Others (of frozen layers, say) may be there."""
    try:
        file = read_header(path)
        _check_weights(file, manifest)
        return file
    except FileProblem as problem:
        raise UserError(f"cannot load weights {path}: {problem}", Exit.WEIGHTS) from None


def check_checkpoint(path: Path, manifest: Manifest) -> int:
    """Fails unless `path` is a checkpoint of this program's weights; returns the step it was saved at."""
    metadata = check_weights(path, manifest).metadata
    if metadata.get("format") != "daf-checkpoint" or not metadata.get("step", "").isdigit():
        reason = "it does not say at which step it was saved; resume from a file that --save wrote"
        raise UserError(f"cannot resume from {path}: {reason}", Exit.WEIGHTS)
    return int(metadata["step"])


def read_header(path: Path) -> TensorFile:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileProblem("it is not a file; give a safetensors file" if path.exists() else "no such file")
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 -- not a mapping
            tensors = {
                name: TensorInfo(name, _NUMPY_NAMES.get(s.get_dtype(), s.get_dtype()), tuple(s.get_shape()))
                for name, s in slices.items()
            }
            return TensorFile(tensors, file.metadata() or {})
    except SafetensorError as error:
        raise FileProblem(f"it is truncated, damaged or not a safetensors file ({error}); write it again") from None
    except OSError as error:
        raise FileProblem(f"{error.strerror or error}; give a safetensors file") from None


def _check_samples(file: TensorFile, inputs: list[TensorInfo], min_samples: int, extra: set[str]) -> None:
    names = [tensor.name for tensor in inputs]
    if not set(names) <= set(file.tensors) or not set(file.tensors) <= set(names) | extra:
        raise FileProblem(
            f"its tensors are {_listed(file.tensors)}; the program's inputs are {_listed(names)}: rename them"
        )
    for expected in inputs:
        found = file.tensors[expected.name]
        if found.dtype != expected.dtype:
            raise FileProblem(f"'{found.name}' is {found.dtype}, {expected.dtype} expected; convert it")
        if found.shape[1:] != expected.shape[1:] or not found.shape:
            wanted = ["samples", *expected.shape[1:]]
            raise FileProblem(
                f"'{found.name}' has shape {_shape(found.shape)}, {_shape(wanted)} expected; reshape it, or export the "
                "program for this shape"
            )
    n_samples = file.tensors[names[0]].shape[0]
    for name in names:
        if file.tensors[name].shape[0] != n_samples:
            raise FileProblem(
                f"'{names[0]}' has {n_samples} samples but '{name}' has {file.tensors[name].shape[0]}; "
                "every tensor needs the same number"
            )
    if n_samples < min_samples:
        raise FileProblem(
            f"it has {n_samples} samples and a step takes {min_samples}; give more data, or export with "
            f"--batch-size {max(n_samples, 1)}"
        )


def _check_weights(file: TensorFile, manifest: Manifest) -> None:
    expected = [tensor for tensor in manifest.state if tensor.is_weight]
    missing = [tensor.name for tensor in expected if tensor.name not in file.tensors]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileProblem(f"it has no '{missing[0]}'{more}; it is not from this model ({manifest.model})")
    for tensor in expected:
        found = file.tensors[tensor.name]
        if (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
            raise FileProblem(
                f"'{tensor.name}' is {found.dtype} {_shape(found.shape)}, the program has {tensor.dtype} "
                f"{_shape(tensor.shape)}; export the model with the settings of these weights"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _shape(sizes: Iterable[object]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"
