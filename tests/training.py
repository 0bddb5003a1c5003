"""Trains the same model three ways: as an exported program, in eager float32 and in eager float64."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

logging.disable(logging.WARNING)  # torch and torchao report optional parts on import

from daf import native  # noqa: E402
from daf.exporter.check import program_gradients, relative_errors  # noqa: E402
from daf.exporter.eager import in_double, loss_and_gradients, program_dropout  # noqa: E402
from daf.exporter.fuse_optimizer import AdamW, NoOptimizer, Optimizer, Sgd  # noqa: E402
from daf.exporter.load import load_model_file  # noqa: E402
from daf.exporter.pipeline import Export, Options, export_program  # noqa: E402

logging.disable(logging.NOTSET)
torch.set_num_threads(1)  # tests run side by side


def export_model(
    model: str,
    folder: Path,
    optimizer: Optimizer | None = None,
    settings: dict[str, object] | None = None,
    dynamic_batch: bool = False,
) -> Export:
    file = load_model_file(model, {name: str(value) for name, value in (settings or {}).items()})
    return export_program(
        Options(file, folder / "program.pte", optimizer or NoOptimizer(), dynamic_batch=dynamic_batch)
    )


def open_session(export: Export, seed: int = 0) -> native.Session:
    assert export.written is not None
    return native.Session(str(export.written.program), str(export.written.manifest_path), seed=seed)


@contextlib.contextmanager
def _constants_in_double(module: ModuleType) -> Iterator[None]:
    """Float tensors that a model file holds at its top level, such as class weights."""
    found = {k: v for k, v in vars(module).items() if isinstance(v, Tensor) and v.dtype == torch.float32}
    for name, value in found.items():
        setattr(module, name, value.double())
    yield
    for name, value in found.items():
        setattr(module, name, value)


@dataclass
class TrainingRun:
    losses: list[float]
    gradients: dict[str, Tensor]  # of the first step
    weights: dict[str, Tensor]


def train_eager(export: Export, optimizer: Sgd | AdamW, n_steps: int, double: bool, rounding: int = 0) -> TrainingRun:
    """`rounding` other than 0 starts from weights that are rounded differently, by at most one unit in the last place
    of float32: another draw of what float32 arithmetic does to this model."""
    file = export.options.file
    with _constants_in_double(file.module) if double else contextlib.nullcontext():
        model, batch = in_double(export.model, export.batch)
        if rounding:
            _round_differently(model, rounding)
        if not double:
            model, batch = model.float(), export.batch
            if not rounding:
                model.load_state_dict(export.model.state_dict())
        _, gradients = loss_and_gradients(model, batch, file.loss)
        torch_optimizer = _torch_optimizer(model, optimizer)
        losses = []
        for step in range(n_steps):
            torch_optimizer.zero_grad()
            with program_dropout(0, step):
                loss = file.loss(model(*batch[:-1]), batch[-1])
            loss.backward()  # type: ignore[no-untyped-call]
            torch_optimizer.step()
            losses.append(float(loss.detach()))
    return TrainingRun(losses, gradients, {name: value.detach().double() for name, value in model.state_dict().items()})


def _round_differently(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
            parameter *= 1 + 2**-23 * noise


def _torch_optimizer(model: nn.Module, optimizer: Sgd | AdamW) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if isinstance(optimizer, Sgd):
        return torch.optim.SGD(
            parameters,
            lr=optimizer.lr,
            momentum=optimizer.momentum,
            weight_decay=optimizer.weight_decay,
            nesterov=optimizer.nesterov,
            foreach=False,
        )
    betas = (optimizer.beta1, optimizer.beta2)
    return torch.optim.AdamW(
        parameters, lr=optimizer.lr, betas=betas, eps=optimizer.eps, weight_decay=optimizer.weight_decay, foreach=False
    )


def train_program(export: Export, n_steps: int) -> TrainingRun:
    session = open_session(export)
    batch = [tensor.numpy() for tensor in export.batch]
    losses = [session.step(batch)]
    gradients = program_gradients(export, session)
    losses += [session.step(batch) for _ in range(n_steps - 1)]
    state: dict[str, Any] = session.state()
    names = [*export.trained, *(name for name, _ in export.model.named_buffers() if name in state)]
    return TrainingRun(losses, gradients, {name: torch.from_numpy(state[name]).double() for name in names})


def gradient_errors(found: dict[str, Tensor], reference: TrainingRun) -> dict[str, float]:
    return relative_errors({name: grad.double() for name, grad in found.items()}, reference.gradients)


def weight_errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Relative L2 distance per tensor."""
    return {
        name: float((value - expected[name].reshape(value.shape)).norm() / expected[name].norm().clamp_min(1e-3))
        for name, value in found.items()
    }
