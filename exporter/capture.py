"""Phase 2, capture: the module becomes one graph of forward and backward, at the level autograd works on."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export.exported_program import ExportedProgram, _decompose_exported_program
from torch.export.graph_signature import InputKind
from torch.nn.attention import SDPBackend, sdpa_kernel

from daf.errors import Exit, UserError
from daf.exporter.graph import strip_wrapper

# Operators that stay whole: the kernels compute them in one pass, and their backward saves less than
# what their decomposition would. Everything else becomes core ATen.
KEPT = frozenset(
    """
    convolution convolution_backward addmm mm bmm
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    native_batch_norm native_batch_norm_backward
    native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward
    relu threshold_backward hardtanh hardtanh_backward leaky_relu leaky_relu_backward elu elu_backward
    sigmoid sigmoid_backward tanh tanh_backward silu silu_backward hardswish hardswish_backward gelu gelu_backward
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data
    nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
    max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
    embedding embedding_dense_backward native_dropout native_dropout_backward
    """.split()
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
    _check_loss(module, batch)
    with _explained("capture the training graph of"):
        exported = torch.export.export(module, batch, strict=True, dynamic_shapes=_dynamic_shapes(batch, dynamic_batch))
        program = _decompose(exported, joint_loss_index=0)
    return _with_model_names(program)


def capture_predict(model: nn.Module, inputs: tuple[Tensor, ...], dynamic_batch: bool) -> ExportedProgram:
    """The forward graph in evaluation mode; leaves the model's modes as they were."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad(), _explained("capture the prediction graph of"):
            exported = torch.export.export(
                _PredictModule(model), inputs, strict=True, dynamic_shapes=_dynamic_shapes(inputs, dynamic_batch)
            )
            program = _decompose(exported, joint_loss_index=None)
    finally:
        for module, training in modes.items():
            module.training = training
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


def _decompose(program: ExportedProgram, joint_loss_index: int | None) -> ExportedProgram:
    with _keeping_provenance(program.graph_module):
        return _decompose_exported_program(
            program,
            cia_to_decomp={},
            python_decomp_table=_decompositions(),  # type: ignore[arg-type]
            joint_loss_index=joint_loss_index,
            decompose_custom_triton_ops=False,
        )


@contextmanager
def _keeping_provenance(graph_module: torch.fx.GraphModule) -> Iterator[None]:
    """Nodes keep the module and the source line they came from.

    AOTAutograd traces twice, each time by calling generated code, which forgets both; run by an interpreter,
    the new nodes inherit them from the old.
    """
    from torch._functorch import aot_autograd

    export_function = aot_autograd._aot_export_function

    def export_interpreted(*args: Any, **kwargs: Any) -> Any:
        joint, *rest = export_function(*args, **kwargs)
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
    if not dynamic_batch:
        return None
    batch = torch.export.Dim("batch", min=1, max=tensors[0].shape[0])
    return (tuple({0: batch} for _ in tensors),)


def _with_model_names(program: ExportedProgram) -> ExportedProgram:
    """Drops the wrapper's prefix: state is named as in the user's own state_dict()."""
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        if spec.target is not None and spec.kind is not InputKind.CONSTANT_TENSOR:
            spec.target = strip_wrapper(spec.target)
    program._state_dict = {strip_wrapper(name): value for name, value in program.state_dict.items()}
    program._constants = {strip_wrapper(name): value for name, value in program.constants.items()}
    return program


def _check_loss(module: _LossModule, batch: tuple[Tensor, ...]) -> None:
    """Runs forward once without changing the model, for errors in the user's own words."""
    state = {name: value.clone() for name, value in module.state_dict().items()}
    try:
        with torch.no_grad():
            value = module(*batch)
    except Exception as error:
        raise UserError(
            f"cannot run the model on its batch: {type(error).__name__}: {_first_line(error)}; "
            "model(), batch() and loss() of the model file must fit together",
            Exit.MODEL,
        ) from error
    finally:
        module.load_state_dict(state)
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise UserError(
            f"cannot train on loss(): it returned {found}, not a scalar; reduce it, for example with .mean()",
            Exit.MODEL,
        )


@contextmanager
def _explained(action: str) -> Iterator[None]:
    """Turns torch.export's errors into one that says what to change in the user's model."""
    import logging

    loggers = [logging.getLogger(name) for name in ("torch._dynamo", "torch.export", "torch.fx")]
    disabled = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        # Attention as plain products and softmax: the fused CPU operator has no kernel on a phone.
        with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
            warnings.simplefilter("ignore")
            yield
    except UserError:
        raise
    except Exception as error:
        text = str(error)
        place = _user_code(text)
        if re.search(r"[Dd]ata.dependent|unbacked|GuardOnDataDependent", text) or "DataDependent" in type(error).__name__:
            raise UserError(
                f"cannot {action} the model: a shape or a branch depends on the data{place}; "
                "a program on a phone has fixed shapes: use a mask or torch.where instead",
                Exit.UNSUPPORTED,
            ) from error
        raise UserError(
            f"cannot {action} the model: {type(error).__name__}: {_first_line(error)}{place}", Exit.UNSUPPORTED
        ) from error
    finally:
        for logger, value in zip(loggers, disabled, strict=True):
            logger.disabled = value


def _user_code(text: str) -> str:
    """` (file.py:12: code)` from the trace that torch.export puts into its message, if there is one."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]+\n\s*([^\n]*)', text)
    frames = [frame for frame in frames if "/torch/" not in frame[0]]
    return f" ({frames[-1][0]}:{frames[-1][1]}: {frames[-1][2].strip()})" if frames else ""


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else "no message"
