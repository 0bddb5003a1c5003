"""ExecuTorch programs that call `daf::` operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer
from torch import Tensor, nn

import daf.exporter.ops  # noqa: F401  (defines the operators)
from daf import native

OPERATORS = native.operator_names()  # asking for them registers them: no session is opened here


class Calls(nn.Module):
    """Calls operators one after the other: tensors are inputs of the program, all other arguments constants in it."""

    def __init__(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> None:
        super().__init__()
        self.operators = [getattr(torch.ops.daf, operator) for operator, _ in calls]
        self.constants = [[None if is_tensor(arg) else arg for arg in args] for _, args in calls]
        self.places = [(i, j) for i, (_, args) in enumerate(calls) for j, arg in enumerate(args) if is_tensor(arg)]

    def forward(self, *tensors: Tensor) -> list[list[Tensor]]:
        args = [list(constants) for constants in self.constants]
        for (i, j), tensor in zip(self.places, tensors, strict=True):
            args[i][j] = tensor
        returned = [operator(*args[i]) for i, operator in enumerate(self.operators)]
        return [[value] if is_tensor(value) else list(value) for value in returned]


class Program:
    def __init__(self, edge: EdgeProgramManager) -> None:
        self.buffer = edge.to_executorch().buffer  # ExecuTorch reads it in place and keeps no reference
        self.module = _load_for_executorch_from_buffer(self.buffer)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return self.module.run_method("forward", list(tensors))  # type: ignore[no-any-return]


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def lower(module: nn.Module, tensors: Sequence[Tensor], **export_options: Any) -> EdgeProgramManager:
    exported = torch.export.export(module, tuple(tensors), **export_options)
    return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def run_all(calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Tensor]:
    tensors = [arg for _, args in calls for arg in args if is_tensor(arg)]
    return Program(lower(Calls(calls), tensors))(tensors)


def in_place_program(operator: str, state: Sequence[Tensor], args: Sequence[Any]) -> Program:
    """Returns the updated `state`. Tracing knows no in-place operators: one takes the place of an addition."""

    class Addition(nn.Module):
        def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
            return (tensors[0] + tensors[0], *tensors[1 : len(state)])

    edge = lower(Addition(), [*state, *(arg for arg in args if is_tensor(arg))])
    graph = edge.exported_program().graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    (addition,) = (node for node in graph.nodes if node.op == "call_function")
    addition.target = getattr(exir_ops.edge.daf, operator).default
    addition.args = (*inputs, *(arg for arg in args if not is_tensor(arg)))
    return Program(edge)
