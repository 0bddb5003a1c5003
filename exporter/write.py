"""Phase 9, write: the program, its manifest and the example batch, each complete or absent."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from daf import native
from daf.errors import Exit, UserError
from daf.exporter.fuse_optimizer import INDEX_STATE, describe, optimizer_state_name
from daf.exporter.graph import inputs_of_kind, nodes_by_name, upper_bound
from daf.exporter.lower import PREDICT, TRAIN, LoweredProgram, constant_bytes
from daf.exporter.plan_memory import STATE_ID, measure_arena
from daf.exporter.schemes import DEFAULT_BITS, STORE_SCHEMA, AssignedScheme
from daf.files import atomic_write
from daf.manifest import FORMAT, SCHEMA, example_path, manifest_path
from daf.text import format_bytes

if TYPE_CHECKING:
    from daf.exporter.pipeline import Export


@dataclass(frozen=True)
class WrittenProgram:
    program: Path
    manifest_path: Path
    manifest: dict[str, Any]


class BudgetTooSmallError(UserError):
    """Not even with one bit for each stored activation."""


class _Hashing:
    """A file that hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size_bytes += len(data)
        return self._file.write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def write_program(export: Export) -> WrittenProgram:
    """All three or none: a file appears under its name only when there was room for every one of them."""
    from safetensors.torch import save

    output = export.options.output
    assert export.lowered is not None
    with (
        atomic_write(manifest_path(output)) as manifest_file,
        atomic_write(example_path(output)) as example_file,
        atomic_write(output) as program_file,
    ):
        hashing = _Hashing(program_file)
        export.lowered.data.write_to_file(hashing)
        example_file.write(save(dict(zip(export.names, export.batch, strict=True))))
        manifest = _manifest(export, export.lowered, hashing.size_bytes, hashing.hexdigest())
        manifest_file.write(json.dumps(manifest, indent=1).encode())
        for file in (manifest_file, example_file, program_file):
            file.flush()
    return WrittenProgram(output, manifest_path(output), manifest)


def rewrite_manifest(export: Export) -> None:
    """After the sensitivities have changed, and so the bits; the program stays."""
    assert export.lowered is not None
    assert export.written is not None
    written = export.written
    program = written.manifest["program"]
    manifest = _manifest(export, export.lowered, program["size_bytes"], program["sha256"])
    with atomic_write(written.manifest_path) as file:
        file.write(json.dumps(manifest, indent=1).encode())
    export.written = WrittenProgram(written.program, written.manifest_path, manifest)


def _manifest(export: Export, lowered: LoweredProgram, size: int, digest: str) -> dict[str, Any]:
    options = export.options
    state = _state(export, lowered)
    state_names = {entry["name"] for entry in state}
    train = _method(export, lowered.methods[TRAIN], export.names)
    train["phases"] = [list(run) for run in lowered.phases]
    memory, bits = _memory(export, lowered, state, state_names)
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "daf_version": version("daf-mobile"),
        "torch_version": version("torch"),
        "executorch_version": version("executorch"),
        "program": {"file": options.output.name, "size_bytes": size, "sha256": digest},
        "model": {"name": options.file.name, "settings": options.file.settings},
        "batch_size": export.batch[0].shape[0],
        "dynamic_batch": options.dynamic_batch,
        "optimizer": describe(options.optimizer),
        "parameters": {
            "count": sum(p.numel() for p in export.model.parameters()),
            "trained": export.update.n_trained,
        },
        "update": _update(export),
        "activations": {"mode": options.activations, "kept": _kept(export, bits)},
        "methods": {TRAIN: train, PREDICT: _method(export, lowered.methods[PREDICT], export.names[:-1])},
        "state": {"memory_id": STATE_ID, "size_bytes": _planned(lowered, TRAIN, STATE_ID), "tensors": state},
        "store": _store(export, bits),
        "memory": memory,
    }


def _update(export: Export) -> dict[str, Any]:
    options, plan = export.options.update, export.update
    described: dict[str, Any] = {"mode": options.name}
    if plan.dense is not None:
        n_slots = len(getattr(export.options.optimizer, "slots", ()))
        described["dense"] = {
            "activations": plan.dense.activations,
            "gradients": plan.dense.gradients,
            "optimizer": n_slots * plan.dense.gradients,
        }
    if plan.layers:
        described.update(ratio=options.ratio, rotate_every=options.rotate_every, select=options.select)
        described["layers"] = [
            {
                "name": layer.name,
                "parameter": layer.parameter,
                "axis": layer.channels.axis,
                "channels": layer.channels.n,
                "chosen": layer.n_chosen,
            }
            for layer in plan.layers
        ]
    return described


def _store(export: Export, bits: dict[str, int]) -> dict[str, Any]:
    return {
        "schema": STORE_SCHEMA,
        "importance": export.options.importance,
        "chunk_bytes": export.store.chunk_bytes,
        "budget_bytes": export.options.budget_bytes,
        "entries": [
            {
                "name": entry.activation.name,
                "n_elements": entry.n_elements,
                "bits": bits[entry.activation.name],
                "min_bits": 1,
                "sensitivity": export.sensitivity(entry),
                **({"probabilities": True} if entry.are_probabilities else {}),
                **({} if entry.map is None else {"map": asdict(entry.map)}),
            }
            for entry in export.store.entries
        ],
    }


def _bits(export: Export, fixed_bytes: int) -> dict[str, int]:
    """Of every stored activation. `fixed_bytes` are what a budget must hold beside the pool."""
    options, entries = export.options, export.store.entries
    sizes, maps = [entry.n_elements for entry in entries], _maps(entries)
    floor = fixed_bytes + native.store_bytes(sizes, [1] * len(sizes), maps)
    if options.budget_bytes is not None and options.budget_bytes < floor:
        raise BudgetTooSmallError(
            f"cannot export within {format_bytes(options.budget_bytes)}: arena and workspace take "
            f"{format_bytes(fixed_bytes)} and the activations at one bit each {format_bytes(floor - fixed_bytes)}; "
            f"raise --budget to at least {math.ceil(floor / 1e3)}kB or export a smaller batch",
            Exit.USAGE,
        )
    if options.activations == "division":
        return {entry.activation.name: entry.bits or DEFAULT_BITS for entry in entries}
    if options.bits is not None or (options.budget_bytes is None and not export.sensitivities):
        return {entry.activation.name: options.bits or export.default_bits for entry in entries}
    if options.budget_bytes is not None:
        limit = options.budget_bytes - fixed_bytes
    else:
        limit = native.store_bytes(sizes, [export.default_bits] * len(sizes))
    found = native.fit_bits(sizes, [export.sensitivity(entry) for entry in entries], limit)
    return dict(zip((entry.activation.name for entry in entries), found, strict=True))


def _maps(entries: list[AssignedScheme]) -> list[tuple[int, ...]]:
    return [() if entry.map is None else entry.map.numbers() for entry in entries]


def _kept(export: Export, bits: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": assigned.activation.name,
            "module": assigned.activation.module,
            **_tensor(assigned.activation.node.meta["val"]),
            "scheme": assigned.name,
            "raw_bytes": assigned.activation.raw_bytes,
            "stored_bytes": assigned.stored_bytes(bits.get(assigned.activation.name, 0)),
            **({"bits": bits[assigned.activation.name]} if assigned.activation.name in bits else {}),
        }
        for assigned in export.schemes
    ]


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    return {"dtype": str(value.dtype).removeprefix("torch."), "shape": [upper_bound(size) for size in value.shape]}


def _method(export: Export, program: ExportedProgram, names: list[str]) -> dict[str, Any]:
    inputs = list(inputs_of_kind(program, InputKind.USER_INPUT).values())
    data = [node for node in inputs if "daf_runtime_input" not in node.meta]
    return {
        "inputs": [{"name": name, **_tensor(node.meta["val"])} for name, node in zip(names, data, strict=True)],
        "runtime_inputs": [node.meta["daf_runtime_input"] for node in inputs if "daf_runtime_input" in node.meta],
        "outputs": _outputs(program),
    }


def _outputs(program: ExportedProgram) -> list[dict[str, Any]]:
    """What the method returns, in order; mutations of buffers are not returned."""
    nodes = nodes_by_name(program)
    found: list[dict[str, Any]] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.BUFFER_MUTATION:
            continue
        name = {
            OutputKind.LOSS_OUTPUT: "loss",
            OutputKind.GRADIENT_TO_PARAMETER: f"grad:{spec.target}",
            OutputKind.TOKEN: f"param:{spec.target or spec.arg.name}",
        }.get(spec.kind, f"output{len(found)}")
        found.append({"name": name, **_tensor(nodes[spec.arg.name].meta["val"])})
    return found


def _state(export: Export, lowered: LoweredProgram) -> list[dict[str, Any]]:
    slots = {
        optimizer_state_name(parameter, slot): (parameter, slot)
        for parameter in export.trained
        for slot in getattr(export.options.optimizer, "slots", ())
    }
    chosen_by = {
        optimizer_state_name(parameter, kind): (parameter, kind)
        for parameter in export.update.sparse
        for kind in INDEX_STATE
    }
    entries = []
    for name, node in _state_placeholders(lowered.methods[TRAIN]).items():
        entry: dict[str, Any] = {"name": name, "kind": "parameter" if name in export.trained else "buffer"}
        if name in slots:
            entry.update(kind="optimizer", parameter=slots[name][0], slot=slots[name][1])
        elif name in chosen_by:
            entry.update(kind="index", parameter=chosen_by[name][0], slot=chosen_by[name][1])
        entries.append({**entry, **_tensor(node.meta["val"]), "offset": node.meta["spec"].mem_offset})
    return entries


def _state_placeholders(program: ExportedProgram) -> dict[str, Node]:
    buffers = inputs_of_kind(program, InputKind.BUFFER)
    return {name: node for name, node in buffers.items() if node.meta["spec"].mem_id == STATE_ID}


def _planned(lowered: LoweredProgram, method: str, memory_id: int) -> int:
    sizes = lowered.plans[method].non_const_buffer_sizes
    return int(sizes[memory_id]) if memory_id < len(sizes) else 0


# Pages of the runtime's own code, and tables of the program: 0.3 to 0.8 MB, measured on a virtual phone.
RUNTIME_BYTES = 500_000


def _memory(
    export: Export, lowered: LoweredProgram, state: list[dict[str, Any]], state_names: set[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """The prediction by part, and the bits of every stored activation that it is for."""

    def state_bytes(*kinds: str) -> int:
        return sum(_bytes(entry) for entry in state if entry["kind"] in kinds)

    use = measure_arena(lowered.methods[TRAIN].graph_module)
    arena = max(use.planned_bytes, measure_arena(lowered.methods[PREDICT].graph_module).planned_bytes)
    parts = {
        "weights": state_bytes("parameter", "buffer"),
        "constants": constant_bytes(lowered.methods[TRAIN], state_names),
        "optimizer": state_bytes("optimizer", "index"),
        "arena": arena,
        "workspace": native.max_workspace_bytes() + export.store.chunk_bytes,
        "batch": sum(tensor.nbytes for tensor in export.batch),
        "runtime": RUNTIME_BYTES,
    }
    bits = _bits(export, parts["arena"] + parts["workspace"])
    entries = export.store.entries
    parts["pool"] = native.store_bytes([e.n_elements for e in entries], list(bits.values()), _maps(entries))
    if export.options.budget_bytes is not None:  # bits that were asked for may be more than there is room for
        parts["pool"] = min(parts["pool"], export.options.budget_bytes - parts["arena"] - parts["workspace"])
    memory = {
        **parts,
        "activations": sum(scheme.arena_bytes for scheme in export.schemes) + parts["pool"],
        "gradients": use.gradients_bytes,
        "peak": sum(parts.values()),
    }
    return memory, bits


def _bytes(entry: dict[str, Any]) -> int:
    n = int(torch.tensor([], dtype=getattr(torch, entry["dtype"])).element_size())
    for size in entry["shape"]:
        n *= size
    return n
