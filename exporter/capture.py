"""Phase 2, capture: the module becomes one graph of forward and backward, at the level autograd works on."""

from __future__ import annotations

import functools
import inspect
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from typing import Any

import torch
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram, _decompose_exported_program
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from daf.errors import Exit, UserError
from daf.exporter.check_model import check_model, first_line, no_gradient
from daf.exporter.graph import TORCH_FOLDER, place, strip_wrapper, unsupported_operator
from daf.exporter.silence import silenced

# Operators that stay whole: the kernels compute them in one pass, and their backward saves less than
# what their decomposition would. Everything else becomes core ATen.
KEPT = frozenset(
    {
        *("convolution", "convolution_backward", "addmm", "mm", "bmm"),
        *("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training"),
        *("native_batch_norm", "native_batch_norm_backward", "native_layer_norm", "native_layer_norm_backward"),
        *("native_group_norm", "native_group_norm_backward"),
        *("relu", "threshold_backward", "hardtanh", "hardtanh_backward", "leaky_relu", "leaky_relu_backward"),
        *("elu", "elu_backward", "sigmoid", "sigmoid_backward", "tanh", "tanh_backward", "silu", "silu_backward"),
        *("hardswish", "hardswish_backward", "gelu", "gelu_backward"),
        *("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data"),
        *("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"),
        *("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward"),
        *("_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"),
        *("embedding", "embedding_dense_backward", "native_dropout", "native_dropout_backward"),
    }
)


class _LossModule(nn.Module):
    """Model and loss as one module: torch differentiates its only output."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *batch: Tensor) -> Tensor:
        return self._loss(self.model(*batch[:-1]), batch[-1])


class _PredictModule(nn.Module):
    """Gives `predict` the same state names as the training graph."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(*inputs)


# Beyond core ATen: operators that ExecuTorch has no kernel of, but PyTorch a rule for.
_FURTHER = ("linalg_vector_norm",)


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions, get_decompositions

    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    table.update(get_decompositions([getattr(torch.ops.aten, name) for name in _FURTHER]))
    return {op: rule for op, rule in table.items() if op.name().split("::")[1].split(".")[0] not in KEPT}


def capture_training(
    model: nn.Module, batch: tuple[Tensor, ...], loss: Callable[[Any, Tensor], Tensor], dynamic_batch: bool
) -> ExportedProgram:
    """The joint graph. Its outputs: buffer mutations, the loss, the gradient of each trainable parameter."""
    module = _LossModule(model, loss)
    check_model(module, batch)
    with _explained("capture the training graph of"):
        try:
            program = _export(module, batch, dynamic_batch, joint_loss_index=0)
        except Exception as error:
            if not re.search("did not receive a gradient|loss, but it does not require gradients", str(error)):
                raise
            raise no_gradient(module, batch) from error
    _check_values(program)
    return _with_model_names(program)


def capture_predict(model: nn.Module, inputs: tuple[Tensor, ...], dynamic_batch: bool) -> ExportedProgram:
    """The forward graph in evaluation mode; leaves the model's modes as they were."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad(), _explained("capture the prediction graph of"):
            program = _export(_PredictModule(model), inputs, dynamic_batch, joint_loss_index=None)
    finally:
        for module, training in modes.items():
            module.training = training
    _check_values(program)
    return _with_model_names(program)


def input_names(model: nn.Module, n_inputs: int) -> list[str]:
    """Names of the batch's tensors: the parameters of forward(), then `target`."""
    names = [
        parameter.name
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ][:n_inputs]
    names += [f"input{i}" for i in range(len(names), n_inputs)]
    return [*names, "target"]


def _export(
    module: nn.Module, inputs: tuple[Tensor, ...], dynamic_batch: bool, joint_loss_index: int | None
) -> ExportedProgram:
    """Strict: plain tracing would lose the gradient that a torch.autograd.Function has of its own."""
    shapes = _dynamic_shapes(inputs, dynamic_batch)
    with nullcontext() if shapes else _without_guards():
        exported = torch.export.export(module, inputs, strict=True, dynamic_shapes=shapes)
    return _decompose(exported, joint_loss_index)


@contextmanager
def _without_guards() -> Iterator[None]:
    """TorchDynamo writes guards of every size, to see if they contradict dynamic ones. Where all are fixed, they can
    not, and would take most of the time."""
    from torch._dynamo import functional_export

    check = functional_export._suggest_or_raise_constraint_violation
    functional_export._suggest_or_raise_constraint_violation = lambda *args: None
    try:
        yield
    finally:
        functional_export._suggest_or_raise_constraint_violation = check


def _decompose(program: ExportedProgram, joint_loss_index: int | None) -> ExportedProgram:
    with _keeping_provenance(program.graph_module):
        decomposed: ExportedProgram = _decompose_exported_program(
            program,
            cia_to_decomp={},
            python_decomp_table=_decompositions(),
            joint_loss_index=joint_loss_index,
            decompose_custom_triton_ops=False,
        )
        return decomposed


@contextmanager
def _keeping_provenance(graph_module: torch.fx.GraphModule) -> Iterator[None]:
    """Nodes keep the module and the source line they came from.

    AOTAutograd traces twice, each time by calling generated code, which forgets both; run by an interpreter,
    the new nodes inherit them from the old.
    """
    from torch._functorch import aot_autograd

    export_function = aot_autograd._aot_export_function

    def export_interpreted(*args: Any, **kwargs: Any) -> Any:
        result: Any = export_function(*args, **kwargs)
        joint, *rest = result
        for node in joint.graph.nodes:  # a backward node belongs where its forward does; only this key is inherited
            node.meta.setdefault("nn_module_stack", node.meta.get("fwd_nn_module_stack") or {})
        joint.forward = torch.fx.Interpreter(joint).run
        return (joint, *rest)

    graph_module.forward = torch.fx.Interpreter(graph_module).run
    aot_autograd._aot_export_function = export_interpreted
    try:
        with torch.fx.traceback.preserve_node_meta():
            yield
    finally:
        aot_autograd._aot_export_function = export_function


def _dynamic_shapes(tensors: tuple[Tensor, ...], dynamic_batch: bool) -> Any:
    if not dynamic_batch or tensors[0].shape[0] == 1:
        return None
    batch = torch.export.Dim("batch", min=1, max=tensors[0].shape[0])
    return (tuple({0: batch} for _ in tensors),)


def _with_model_names(program: ExportedProgram) -> ExportedProgram:
    """Drops the wrapper's prefix: state is named as in the user's own state_dict()."""
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        if spec.target is not None:
            spec.target = strip_wrapper(spec.target)
    program._state_dict = {strip_wrapper(name): value for name, value in program.state_dict.items()}
    program._constants = {strip_wrapper(name): value for name, value in program.constants.items()}
    return program


def _check_values(program: ExportedProgram) -> None:
    """What torch.export accepts and no kernel can: sizes and numbers that depend on the data, complex tensors."""
    for node in program.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if free_unbacked_symbols(value):
                raise _depends_on_data("export", place(node))
            if isinstance(value, Tensor) and value.is_complex():
                raise unsupported_operator(node)


def _depends_on_data(action: str, where: str) -> UserError:
    return UserError(
        f"cannot {action} the model: a shape, a branch or a number depends on the data{where}; "
        "a program on a phone has fixed shapes: use a mask or torch.where instead",
        Exit.UNSUPPORTED,
    )


@contextmanager
def _explained(action: str) -> Iterator[None]:
    """Turns torch.export's errors into one that says what to change in the user's model."""
    try:
        # Attention as plain products and softmax: the fused CPU operators have no kernel on a phone.
        with _quiet(), sdpa_kernel(SDPBackend.MATH), _without_fused_encoder_layers():
            yield
    except UserError:
        raise
    except Exception as error:
        raise _explanation(action, error) from error


@contextmanager
def _without_fused_encoder_layers() -> Iterator[None]:
    """In evaluation, nn.TransformerEncoder and nn.MultiheadAttention would take one."""
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)


@contextmanager
def _quiet() -> Iterator[None]:
    """Before torch raises, it warns, logs and prints the graph so far; the error says it all."""
    with silenced(logging.CRITICAL), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _explanation(action: str, error: Exception) -> UserError:
    text = str(error)
    if re.search(r"[Dd]ata.dependent|unbacked|GuardOnDataDependent", text) or "DataDependent" in type(error).__name__:
        return _depends_on_data(action, _user_code(text))
    if "marked batch as dynamic" in text:
        first_place = text.split("User stack:")[1:2]
        return UserError(
            f"cannot {action} the model with a dynamic batch: it fixes the number of samples"
            f"{_user_code(''.join(first_place))}; take it from the input's shape, or export without --dynamic-batch",
            Exit.UNSUPPORTED,
        )
    return UserError(
        f"cannot {action} the model: {type(error).__name__}: {first_line(error)}{_user_code(text)}", Exit.UNSUPPORTED
    )


def _user_code(text: str) -> str:
    """` (file.py:12: code)` from the trace that torch.export puts into its message, if there is one."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]*)', text)
    frames = [frame for frame in frames if not frame[0].startswith(TORCH_FOLDER)]
    return f" ({frames[-1][0]}:{frames[-1][1]}: {frames[-1][2].strip()})" if frames else ""
