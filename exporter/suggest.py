"""`daf-export --suggest`: which ways to train a model would fit a device, on paper, and what each gives up.

Every combination is exported for its predicted memory; nothing is run, and nothing is kept of it.
"""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.fx import Node

from daf.errors import UserError
from daf.exporter.lower import TRAIN
from daf.exporter.pipeline import Options, export_program
from daf.exporter.plan_update import Update
from daf.exporter.schemes import ActivationMode
from daf.text import format_bytes, format_table

USABLE = 0.85  # of the device's memory: the process itself and the kernel need some, as in daf.tools.memory_advice
N_SUGGESTIONS = 3


@dataclass(frozen=True)
class Combination:
    activations: ActivationMode
    update: Update
    gives_up: str

    @property
    def options(self) -> list[str]:
        given = [] if self.activations == "fp32" else ["--activations", self.activations]
        return given + ([] if self.update.mode == "dense" else ["--update", self.update.name])

    def __str__(self) -> str:
        return " ".join(self.options) or "float32, dense"


_DENSE, _SPARSE = Update(), Update("sparse")
# From the one that gives up the least on.
COMBINATIONS = (
    Combination("fp32", _DENSE, "nothing"),
    Combination("daf", _DENSE, "precision of what backward reads, a few bits; gradients stay unbiased"),
    Combination("division", _DENSE, "precision of what backward reads: averages of blocks, and 2 bits of the rest"),
    Combination("fp32", Update("last", 2), "all but the last two layers stay as they are"),
    Combination("fp32", _SPARSE, "2 % of the weights train at a time, with frozen normalisation"),
    Combination("daf", _SPARSE, "2 % of the weights train at a time, from a few bits"),
    Combination("daf", Update("last", 1), "all but the last layer stays as it is"),
)


@dataclass(frozen=True)
class Candidate:
    combination: Combination
    peak_bytes: int
    multiply_adds: int  # of a step


@dataclass(frozen=True)
class Suggestion:
    candidate: Candidate
    reason: str


def suggest(
    options: Options, given: Sequence[str], device_memory_bytes: int, on_combination: Callable[[int, str], None]
) -> str:
    """The text to show. `given`: the model and its options, for the commands in it.

    `on_combination(number, name)` is called before each one is tried.
    """
    candidates, refused = [], []
    for number, combination in enumerate(COMBINATIONS, start=1):
        on_combination(number, str(combination))
        try:
            candidates.append(_try(options, combination))
        except UserError as error:
            if not candidates:  # the model itself is at fault
                raise
            refused.append(f"{combination} was left out: {error}")
    suggestions = choose(candidates, device_memory_bytes)
    return "\n".join([show(candidates, suggestions, given, device_memory_bytes), *refused])


def _try(options: Options, combination: Combination) -> Candidate:
    with tempfile.TemporaryDirectory() as folder:
        tried = replace(
            options, output=Path(folder) / "tried.pte", activations=combination.activations, update=combination.update
        )
        exported = export_program(tried)
    assert exported.written is not None
    multiply_adds = sum(count_multiply_adds(node) for node in exported.programs[TRAIN].graph.nodes)
    return Candidate(combination, exported.written.manifest["memory"]["peak"], multiply_adds)


def count_multiply_adds(node: Node) -> int:
    """Of a matrix product or convolution; 0 for everything else, which takes little time beside them."""
    args = node.args
    match str(node.target._schema.name) if isinstance(node.target, torch._ops.OpOverload) else "":
        case "daf::gemm" | "daf::gemm_add" | "daf::gemm_activation":
            return _of_products(_shape(args[0]), _shape(args[1]), _shape(node), math.prod(_shape(node)[:-2]))
        case "daf::stored_gemm":
            return _of_products(_shape(args[0]), args[3], _shape(node), math.prod(_shape(node)[:-2]))
        case "daf::batch_gemm":
            return _of_products(_shape(args[0]), _shape(args[1]), _shape(node), _n_heads(node, args[6]))
        case "daf::stored_batch_gemm":
            return _of_products(_shape(args[0]), args[3], _shape(node), _n_heads(node, args[9]))
        case "daf::convolution":
            return math.prod(_shape(node)) * math.prod(_shape(args[1])[1:])
        case "daf::convolution_input_grad":
            return math.prod(_shape(args[0])) * math.prod(_shape(args[1])[1:])
        case "daf::convolution_weight_grad" | "daf::stored_convolution_weight_grad":
            return math.prod(_shape(args[0])) * math.prod(_shape(node)[1:])
    return 0


def _shape(value: object) -> list[int]:
    assert isinstance(value, Node)
    return [int(n) for n in value.meta["val"].shape]


def _of_products(a: object, b: object, out: list[int], n_products: int) -> int:
    """(m k) (k n) (m n) is (m n k)^2, for each product."""
    return math.isqrt(math.prod(a) * math.prod(b) * math.prod(out) // max(n_products, 1))  # type: ignore[call-overload]


def _n_heads(node: Node, out_rows_first: object) -> int:
    shape = _shape(node)
    return shape[0] * shape[2 if out_rows_first else 1]


def choose(candidates: Sequence[Candidate], device_memory_bytes: int) -> list[Suggestion]:
    """Three that fit: what gives up the least, what computes the least, what needs the least memory."""
    fitting = [candidate for candidate in candidates if candidate.peak_bytes <= USABLE * device_memory_bytes]
    if not fitting:
        closest = min(candidates, key=lambda candidate: candidate.peak_bytes)
        raise UserError(
            f"cannot suggest a way to train with {format_bytes(device_memory_bytes)}: the one that comes closest "
            f"({closest.combination}) needs {format_bytes(closest.peak_bytes / USABLE)}; use a smaller batch or model"
        )
    chosen: dict[Combination, Suggestion] = {}
    for candidate, reason in _by_merit(fitting):
        if len(chosen) < N_SUGGESTIONS:
            chosen.setdefault(candidate.combination, Suggestion(candidate, reason))
    return list(chosen.values())


def _by_merit(fitting: Sequence[Candidate]) -> Iterator[tuple[Candidate, str]]:
    yield fitting[0], "gives up the least"
    yield min(fitting, key=lambda candidate: candidate.peak_bytes), "needs the least memory"
    yield min(fitting, key=lambda candidate: candidate.multiply_adds), "computes the least"
    for candidate in fitting:
        yield candidate, "gives up a little more"


def show(
    candidates: Sequence[Candidate], suggestions: Sequence[Suggestion], given: Sequence[str], device_memory_bytes: int
) -> str:
    dense = candidates[0]
    rows = [
        (
            str(candidate.combination),
            format_bytes(candidate.peak_bytes),
            "yes" if candidate.peak_bytes <= USABLE * device_memory_bytes else "no",
            f"{candidate.multiply_adds / max(dense.multiply_adds, 1):.2f}x",
            candidate.combination.gives_up,
        )
        for candidate in candidates
    ]
    header = ("tried", "predicted peak", "fits", "multiply-adds", "gives up")
    lines = [format_table(rows, header), "", f"For a device with {format_bytes(device_memory_bytes)}:"]
    for number, suggestion in enumerate(suggestions, start=1):
        command = shlex.join(["daf-export", *given, *suggestion.candidate.combination.options, "-o", "OUT.pte"])
        lines.append(f"{number}. {suggestion.reason}: {suggestion.candidate.combination.gives_up}\n   {command}")
    lines.append(
        "Compressing adds 1 to 8 % to the time of a step (docs/benchmarks.md); --budget bounds memory further."
    )
    return "\n".join(lines)
