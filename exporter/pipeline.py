"""The phases of an export, in order. Each is one module; the verifier runs after every one of them.

    load -> capture -> canonicalize -> plan update -> find saved activations -> assign schemes
         -> compress activations -> fuse operators -> fuse the optimizer -> lower -> write

`Export` is what they hand on. A phase states what it needs by what it reads from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram

from daf.exporter import ops, store_ops  # noqa: F401  (define the operators)
from daf.exporter.capture import capture_predict, capture_training, input_names
from daf.exporter.compress_activations import StorePlan, compress_activations
from daf.exporter.division import Division
from daf.exporter.find_saved import SavedActivation, find_saved
from daf.exporter.fuse_optimizer import NoOptimizer, Optimizer, fuse_optimizer, parameters_to_buffers
from daf.exporter.load import ModelFile
from daf.exporter.lower import PREDICT, TRAIN, LoweredProgram, check_operators, lower, to_edge
from daf.exporter.passes.convert_elementwise import convert_elementwise
from daf.exporter.passes.convert_to_daf import convert_to_daf
from daf.exporter.passes.fold_gates import fold_gates
from daf.exporter.passes.fold_heads import fold_heads
from daf.exporter.passes.fold_transposes import fold_transposes
from daf.exporter.passes.fuse_activation import fuse_activation
from daf.exporter.passes.fuse_batch_norm import fuse_batch_norm
from daf.exporter.passes.fuse_cross_entropy import fuse_cross_entropy
from daf.exporter.passes.fuse_gemm_terms import fuse_gemm_terms
from daf.exporter.passes.fuse_masked_softmax import fuse_masked_softmax
from daf.exporter.passes.fuse_silu_backward import fuse_silu_backward
from daf.exporter.passes.remove_noops import remove_noops
from daf.exporter.passes.repeat_expands import repeat_expands
from daf.exporter.passes.take_derivatives import take_derivatives
from daf.exporter.plan_update import Update, UpdatePlan, plan_update
from daf.exporter.schemes import (
    DEFAULT_BITS,
    ActivationMode,
    AssignedScheme,
    Attention,
    assign_schemes,
    default_bits,
    divide,
    find_attention,
)
from daf.exporter.verify import verify

if TYPE_CHECKING:
    from daf.exporter.write import WrittenProgram


@dataclass(frozen=True)
class Options:
    file: ModelFile
    output: Path
    optimizer: Optimizer = field(default_factory=NoOptimizer)
    activations: ActivationMode = "fp32"
    bits: int | None = None  # of every stored activation; None: by importance, Export.default_bits on average
    budget_bytes: int | None = None  # for arena, pool and workspace together
    division: Division = field(default_factory=Division)
    importance: str = "uniform"  # by what stored activations share their bits
    update: Update = field(default_factory=Update)
    dynamic_batch: bool = False
    dump: Path | None = None


@dataclass
class Export:
    """The state of one export; each phase fills in its part."""

    options: Options
    model: nn.Module
    batch: tuple[Tensor, ...]
    names: list[str]  # of the batch's tensors
    programs: dict[str, ExportedProgram] = field(default_factory=dict)
    update: UpdatePlan = field(default_factory=UpdatePlan)
    saved: list[SavedActivation] = field(default_factory=list)
    schemes: list[AssignedScheme] = field(default_factory=list)
    default_bits: int = DEFAULT_BITS  # of stored activations, on average
    attention: list[Attention] = field(default_factory=list)
    store: StorePlan = field(default_factory=lambda: StorePlan([], 0))
    sensitivities: dict[str, float] = field(default_factory=dict)  # stored activation -> importance, when calibrated
    lowered: LoweredProgram | None = None
    written: WrittenProgram | None = None

    @property
    def trained(self) -> dict[str, int]:
        """Parameter -> bytes."""
        return self.update.trained

    def sensitivity(self, entry: AssignedScheme) -> float:
        """Without calibration, the same for every element."""
        return self.sensitivities.get(entry.activation.name, float(entry.n_elements))


def load(options: Options) -> Export:
    model = options.file.make_model()
    batch = options.file.make_batch()
    return Export(options, model, batch, input_names(model, len(batch) - 1))


def capture(export: Export) -> None:
    dynamic = export.options.dynamic_batch
    export.programs[TRAIN] = capture_training(export.model, export.batch, export.options.file.loss, dynamic)
    export.programs[PREDICT] = capture_predict(export.model, export.batch[:-1], dynamic)


def canonicalize(export: Export) -> None:
    """Copies that only rename are gone, `daf::` operators take the place of ATen's."""
    for program in export.programs.values():
        remove_noops(program)
        convert_to_daf(program)
        fold_transposes(program)
        fold_heads(program)
        fuse_cross_entropy(program)
        fuse_silu_backward(program)


def plan(export: Export) -> None:
    export.update = plan_update(export, export.programs[TRAIN])


def find_saved_activations(export: Export) -> None:
    """After what need not be saved is not."""
    program = export.programs[TRAIN]
    repeat_expands(program)
    if export.options.activations == "daf":
        fold_gates(program)
        take_derivatives(program)
    export.saved = find_saved(program)


def assign(export: Export) -> None:
    options = export.options
    # Where most of an activation is not kept, neither is it for the sign of its elements.
    exact_masks = options.update.mode != "dense" and not options.dynamic_batch
    export.schemes = assign_schemes(export.saved, options.activations, options.bits, exact_masks)
    if options.activations == "division":
        export.schemes = divide(export.schemes, export.batch[0].shape[0], options.division)
    export.default_bits = default_bits(export.saved)
    export.attention = find_attention(export.schemes)


def compress(export: Export) -> None:
    if any(scheme.name != "keep" for scheme in export.schemes):
        export.store = compress_activations(export.programs[TRAIN], export.schemes)


def fuse_operators(export: Export) -> None:
    """Operators that pass over the same memory become one. What backward reads is decided by now, and stays."""
    for program in export.programs.values():
        fuse_batch_norm(program)
        fuse_activation(program)
        fuse_gemm_terms(program)
        fuse_masked_softmax(program)
        convert_elementwise(program)


def fuse(export: Export) -> None:
    """Enters the edge dialect, where ExecuTorch lets a program change its own weights."""
    from daf import native

    available = set(native.operator_names())
    for name, program in export.programs.items():
        check_operators(edge := to_edge(program), available)
        export.programs[name] = edge
    optimizer = export.options.optimizer
    if not isinstance(optimizer, NoOptimizer):
        # What is alive when backward begins; a compressed program also needs whole tensors while it computes.
        largest = max((scheme.activation.raw_bytes for scheme in export.schemes), default=0)
        kept = sum(scheme.stored_bytes(scheme.bits or export.default_bits) for scheme in export.schemes)
        activation_bytes = max(4 * largest, kept)
        fuse_optimizer(export.programs[TRAIN], optimizer, activation_bytes, export.update.sparse)
        parameters_to_buffers(export.programs[PREDICT], set(export.trained))


def lower_methods(export: Export) -> None:
    initialised = set(export.trained) | {name for name, _ in export.model.named_buffers()}
    export.lowered = lower(export.programs[TRAIN], export.programs[PREDICT], initialised)


def write(export: Export) -> None:
    from daf.exporter.write import write_program

    export.written = write_program(export)


@dataclass(frozen=True)
class Phase:
    name: str
    run: Callable[[Export], None]


PHASES: tuple[Phase, ...] = (
    Phase("capture", capture),
    Phase("canonicalize", canonicalize),
    Phase("plan update", plan),
    Phase("find saved activations", find_saved_activations),
    Phase("assign schemes", assign),
    Phase("compress activations", compress),
    Phase("fuse operators", fuse_operators),
    Phase("fuse the optimizer", fuse),
    Phase("lower", lower_methods),
    Phase("write", write),
)
N_PHASES = len(PHASES) + 1  # and "load", which makes the Export


OnPhase = Callable[[int, str], None]


def export_program(options: Options, on_phase: OnPhase = lambda number, name: None) -> Export:
    """Runs all phases. `on_phase(number, name)` is called before each.

    A sparse update that chooses its layers itself takes fewer of them where the budget would not do.
    """
    from daf.exporter.write import BudgetTooSmallError

    on_phase(1, "load")
    export = _load(options)
    try:
        _run_phases(export, on_phase)
    except BudgetTooSmallError:
        n_layers = len(export.update.layers)
        if n_layers < 2 or options.update.layers is not None:
            raise
        on_phase(N_PHASES, "fit to the budget")
        return _export_fewer_layers(options, n_layers)
    return export


def _export_fewer_layers(options: Options, too_many: int) -> Export:
    """With as many update layers as the budget allows, at least one: the export that succeeds last stays."""
    from daf.exporter.write import BudgetTooSmallError

    def attempt(n_layers: int) -> Export:
        export = _load(replace(options, update=replace(options.update, layers=n_layers)))
        _run_phases(export, lambda number, name: None)
        return export

    n_layers, best = 1, attempt(1)
    while n_layers + 1 < too_many:
        middle = (n_layers + too_many) // 2
        try:
            n_layers, best = middle, attempt(middle)
        except BudgetTooSmallError:
            too_many = middle
    return best


def _load(options: Options) -> Export:
    with torch.random.fork_rng(devices=[]):
        return load(options)


def _run_phases(export: Export, on_phase: OnPhase) -> None:
    for number, phase in enumerate(PHASES, start=2):
        on_phase(number, phase.name)
        phase.run(export)
        if export.lowered is None:
            for program in export.programs.values():
                verify(program, phase.name)
        if export.options.dump is not None:
            _dump(export, number, phase.name)


def _dump(export: Export, number: int, phase: str) -> None:
    from daf.files import atomic_write

    assert export.options.dump is not None
    programs = export.programs if export.lowered is None else export.lowered.methods
    for name, program in programs.items():
        path = export.options.dump / f"{number:02d}-{phase.replace(' ', '-')}.{name}.txt"
        with atomic_write(path) as file:
            file.write(program.graph_module.print_readable(print_output=False).encode())
            file.write(f"\n{program.graph_signature}\n".encode())
