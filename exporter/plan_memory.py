"""Places the tensors of a method in its arena: best fit, largest first, by lifetime.

ExecuTorch's greedy algorithm shares whole objects; this one packs into any gap that is free for a tensor's whole
life, and reaches the lower bound (the largest sum of tensors alive at once) or comes within a few percent of it.
Where an operator is the last to read a tensor, and may write its output over it, it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
from executorch.exir.passes.replace_view_copy_with_view_pass import _ViewSpec
from executorch.exir.tensor import TensorSpec

ALIGNMENT = 64  # a cache line, and what the widest vector loads want
ARENA_ID = 1
STATE_ID = 2


# Operator -> the inputs that its output may be written over (an output's number, where there are several): it reads
# no element of them after it has written that one. As kernels.h says of each kernel. ExecuTorch copies a view only
# where a method returns it.
_MAY_OVERWRITE: dict[str, tuple[tuple[int, ...], int]] = {
    "aten::view_copy": ((0,), 0),
    "daf::activation": ((0,), 0),
    "daf::activation_backward": ((0,), 0),
    "daf::activation_with_mask": ((0,), 0),
    "daf::add_activation": ((0, 1), 0),
    "daf::arithmetic": ((0, 1), 0),
    "daf::arithmetic_scalar": ((0,), 0),
    "daf::batch_norm_activation_backward": ((0,), 0),
    "daf::batch_norm_activation_eval": ((0,), 0),
    "daf::batch_norm_activation_train": ((0,), 0),
    "daf::batch_norm_backward": ((0,), 0),
    "daf::batch_norm_eval": ((0,), 0),
    "daf::batch_norm_train": ((0,), 0),
    "daf::cross_entropy": ((0,), 1),
    "daf::dropout": ((0,), 0),
    "daf::masked_gradient": ((0,), 0),
    "daf::masked_softmax": ((0,), 0),
    "daf::softmax_backward": ((0,), 0),
    "daf::stored_activation_backward": ((0,), 0),
    "daf::stored_batch_norm_backward": ((0,), 0),
    "daf::stored_softmax_backward": ((0,), 0),
}


def _overwritten(graph_module: torch.fx.GraphModule, specs: set[TensorSpec]) -> dict[TensorSpec, TensorSpec]:
    """Output -> the input whose place it takes, both of `specs`."""
    found: dict[TensorSpec, TensorSpec] = {}
    for i, node in enumerate(graph_module.graph.nodes):
        schema = getattr(node.target, "_schema", None)
        inputs, output = _MAY_OVERWRITE.get(schema.name, ((), 0)) if schema is not None else ((), 0)
        read = [_base(argument) for argument in node.args if isinstance(argument, torch.fx.Node)] if inputs else []
        for x in (_base(node.args[argument]) for argument in inputs):
            made = _specs(node)[output]
            is_last = x in specs and made in specs and x.lifetime[1] == i
            # Of the same size, or elements of x are read for more than one of the output; and not read in two ways.
            if is_last and x.nbytes() == made.nbytes() and sum(spec is x for spec in read) == 1:
                found[made] = x
                break
    return found


def _base(node: torch.fx.Node) -> TensorSpec:
    """The tensor that a node is, or is a view of."""
    spec = node.meta["spec"]
    while isinstance(spec, _ViewSpec):
        spec = spec._base
    return spec


@dataclass
class _Place:
    """Of one tensor after the other."""

    specs: list[TensorSpec]

    @property
    def size_bytes(self) -> int:
        return int(self.specs[0].allocated_memory)

    @property
    def lifetime(self) -> tuple[int, int]:
        return min(spec.lifetime[0] for spec in self.specs), max(spec.lifetime[1] for spec in self.specs)


def _places(graph_module: torch.fx.GraphModule, specs: set[TensorSpec]) -> list[_Place]:
    places = {spec: _Place([spec]) for spec in specs}
    for output, x in _overwritten(graph_module, specs).items():  # in the order of the graph
        places[x].specs.append(output)
        places[output] = places[x]
    return list({id(place): place for place in places.values()}.values())


def best_fit(
    alignment: int,
    specs: set[TensorSpec],
    graph_module: torch.fx.GraphModule,
    graph_signature: Any,
    extra_padding: int = 0,
) -> MemoryAlgoResult:
    """The signature that MemoryPlanningAlgorithmSuite calls."""
    for spec in specs:
        spec.realign(alignment)
    ordered = sorted(_places(graph_module, specs), key=lambda place: (-place.size_bytes, place.lifetime))
    begin, end, offset, limit = (np.empty(len(ordered), dtype=np.int64) for _ in range(4))
    result = MemoryAlgoResult({}, [])
    for n_placed, place in enumerate(ordered):
        first, last = place.lifetime
        alive = np.flatnonzero((begin[:n_placed] <= last) & (end[:n_placed] >= first))
        gap = _smallest_gap(offset[alive], limit[alive], place.size_bytes)
        begin[n_placed], end[n_placed] = first, last
        offset[n_placed], limit[n_placed] = gap, gap + place.size_bytes
        for spec in place.specs:
            result.spec_dict[spec] = SpecAllocResult(ARENA_ID, 0, gap)
    result.bufsizes = [0, int(limit.max(initial=0)) + extra_padding]
    return result


def _smallest_gap(offset: np.ndarray[Any, Any], limit: np.ndarray[Any, Any], size: int) -> int:
    """Where `size` bytes fit best among the taken ranges; after the last one if nowhere."""
    order = np.argsort(offset)
    gap_begin = np.concatenate(([0], np.maximum.accumulate(limit[order])))
    gap_size = offset[order] - gap_begin[:-1]
    fitting = np.flatnonzero(gap_size >= size)
    if len(fitting) == 0:
        return int(gap_begin[-1])
    return int(gap_begin[fitting[np.argmin(gap_size[fitting])]])


@dataclass(frozen=True)
class ArenaUse:
    """What the arena of a planned method holds when it is fullest."""

    planned_bytes: int
    peak_bytes: int  # the largest sum of tensors alive at once: the lower bound of planned_bytes
    activations_bytes: int  # of it: kept for backward
    gradients_bytes: int  # of it: gradients of parameters


def measure_arena(graph_module: torch.fx.GraphModule) -> ArenaUse:
    roles: dict[int, tuple[TensorSpec, str]] = {}
    for node in graph_module.graph.nodes:
        role = node.meta.get("daf_role", "")
        for spec in _specs(node):
            if spec.mem_id == ARENA_ID and (role or id(spec) not in roles):
                roles[id(spec)] = (spec, role)
    n_nodes = len(graph_module.graph.nodes) + 1
    change = {role: np.zeros(n_nodes + 1, dtype=np.int64) for role in ("", "activation", "gradient")}
    planned = 0
    overwritten = _overwritten(graph_module, {spec for spec, _ in roles.values()})
    for spec, role in roles.values():
        first, last = spec.lifetime
        if spec in overwritten:
            first = min(overwritten[spec].lifetime[1], last) + 1
        change[role][first] += spec.allocated_memory
        change[role][last + 1] -= spec.allocated_memory
        planned = max(planned, spec.mem_offset + spec.allocated_memory)
    alive = {role: np.cumsum(steps) for role, steps in change.items()}
    total = sum(alive.values(), np.zeros(n_nodes + 1, dtype=np.int64))
    fullest = int(np.argmax(total))
    return ArenaUse(planned, int(total[fullest]), int(alive["activation"][fullest]), int(alive["gradient"].max()))


def check_no_overlap(graph_module: torch.fx.GraphModule) -> None:
    """No two tensors that are alive at once share a byte. ExecuTorch's own check does not run for other algorithms."""
    specs = list({id(spec): spec for node in graph_module.graph.nodes for spec in _specs(node)}.values())
    specs = [spec for spec in specs if spec.mem_id == ARENA_ID]
    places = {id(spec): place for place in _places(graph_module, set(specs)) for spec in place.specs}
    place = np.array([id(places[id(spec)]) for spec in specs])
    begin, end = (np.array([spec.lifetime[i] for spec in specs]) for i in range(2))
    offset = np.array([spec.mem_offset for spec in specs])
    limit = offset + np.array([spec.allocated_memory for spec in specs])
    for i in range(len(specs)):
        clash = (begin <= end[i]) & (end >= begin[i]) & (offset < limit[i]) & (limit > offset[i])
        clash &= place != place[i]
        if clash.any():
            other = specs[int(np.argmax(clash))]
            raise AssertionError(f"memory planning put {specs[i]} and {other} on the same bytes")


def _specs(node: torch.fx.Node) -> list[TensorSpec]:
    """The tensors that a node owns; a view has no memory of its own."""
    spec = node.meta.get("spec")
    specs = spec if isinstance(spec, list | tuple) else [spec]
    return [s for s in specs if isinstance(s, TensorSpec) and not isinstance(s, _ViewSpec)]
