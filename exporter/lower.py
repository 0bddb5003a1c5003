"""Phase 8, lower: edge programs become the two methods of an ExecuTorch program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.program._program import _generate_edge_program
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx import Node

from daf.exporter.graph import inputs_of_kind, unsupported_operator
from daf.exporter.plan_memory import ALIGNMENT, best_fit, check_no_overlap

TRAIN, PREDICT = "train_step", "predict"

_CONFIG = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
# The emitter copies a node's debug handle to its instruction: that is how the manifest knows their phases.
PHASE_HANDLES = {"forward": 1, "backward": 2, "update": 3}


@dataclass
class LoweredProgram:
    data: Any  # bytes-like pieces with write_to_file(); a full-size model is not joined in memory
    methods: dict[str, ExportedProgram]
    plans: dict[str, Any]
    phases: list[tuple[str, int]] = field(default_factory=list)


class _FixedSignature(ExportGraphSignature):
    """One that does not change any more, so that its maps are made once, and not at each of the many looks at them."""

    @cached_property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return super().inputs_to_buffers

    @cached_property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return super().buffers_to_mutate


class _PlanningPass(MemoryPlanningPass):  # type: ignore[misc]
    def run(self, graph_module: torch.fx.GraphModule, graph_signature: ExportGraphSignature | None = None) -> Any:
        if graph_signature is not None:
            graph_signature = _FixedSignature(graph_signature.input_specs, graph_signature.output_specs)
        return super().run(graph_module, graph_signature)


def to_edge(program: ExportedProgram) -> ExportedProgram:
    """The graph is in core ATen and `daf::` operators already: no further decomposition, only the dialect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge: ExportedProgram = _generate_edge_program(_CONFIG, program)
        return edge


def check_operators(program: ExportedProgram, available: set[str]) -> None:
    """Every operator must have a kernel in the runtime; otherwise names it, its module and the user's line."""
    checked: set[Any] = set()
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or node.target in checked:
            continue
        checked.add(node.target)
        computes_size = isinstance(node.meta.get("val"), torch.SymInt | int)  # the runtime's own arithmetic
        if not computes_size and not schema.is_mutable and _runtime_name(node) not in available:
            raise unsupported_operator(node)


def _runtime_name(node: Node) -> str:
    try:
        overload = node.target.to_out_variant()  # type: ignore[union-attr]
    except (RuntimeError, AttributeError, AssertionError):
        return ""
    return f"{overload._schema.name}.{overload._schema.overload_name}"


def lower(train: ExportedProgram, predict: ExportedProgram, trained: set[str]) -> LoweredProgram:
    """`trained` are the state names whose initial value the program carries."""
    for name, node in inputs_of_kind(train, InputKind.BUFFER).items():
        node.meta["et_init_buffer"] = name in trained
    for node in train.graph.nodes:
        if node.op == "call_function":
            node.meta["debug_handle"] = PHASE_HANDLES[node.meta.get("daf_phase", "update")]
    planning = _PlanningPass(
        memory_planning_algo=MemoryPlanningAlgorithmSuite([best_fit]),
        share_mutable_buffers=True,
        alloc_graph_input=False,
        alignment=ALIGNMENT,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manager = EdgeProgramManager({TRAIN: train, PREDICT: predict}, None, _CONFIG)
        lowered = manager.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning, segment_alignment=4096))
    methods = {name: lowered.exported_program(name) for name in (TRAIN, PREDICT)}
    for method in methods.values():
        check_no_overlap(method.graph_module)
    plans = {plan.name: plan for plan in lowered.executorch_program.execution_plan}
    return LoweredProgram(lowered, methods, plans, _phases(plans[TRAIN], lowered.debug_handle_map[TRAIN]))


def _phases(plan: Any, handles: dict[int, Any]) -> list[tuple[str, int]]:
    """Run lengths of the phases of a method's instructions."""
    names = {handle: name for name, handle in PHASE_HANDLES.items()}
    runs: list[tuple[str, int]] = []
    for i in range(len(plan.chains[0].instructions)):
        handle = handles.get(i)
        if isinstance(handle, list):
            handle = handle[0]
        phase = names.get(handle) or (runs[-1][0] if runs else "forward")  # type: ignore[arg-type]
        if runs and runs[-1][0] == phase:
            runs[-1] = (phase, runs[-1][1] + 1)
        else:
            runs.append((phase, 1))
    return runs


def constant_bytes(program: torch.export.ExportedProgram, state_names: set[str]) -> int:
    """Frozen weights and constants that a method reads from the program file."""
    total = 0
    for spec in program.graph_signature.input_specs:
        name = str(spec.target)
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR) and name not in state_names:
            value = program.state_dict.get(name, program.constants.get(name))
            if isinstance(value, torch.Tensor):
                total += value.numel() * value.element_size()
    return total
