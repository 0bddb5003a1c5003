"""Whether a model can be captured, tried by running it: the errors are in the user's own words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from daf.errors import Exit, UserError
from daf.exporter.graph import strip_wrapper


def check_model(module: nn.Module, batch: tuple[Tensor, ...]) -> None:
    """Runs forward once and leaves the model as it was. Finds also what tracing would not see: it takes a random number
    of Python for a constant, and loses a buffer that is replaced."""
    state = {name: value.clone() for name, value in module.state_dict().items()}
    buffers, chances = dict(module.named_buffers()), _random_states()
    try:
        with torch.no_grad():
            value = module(*batch)
    except Exception as error:
        raise UserError(
            f"cannot run the model on its batch: {type(error).__name__}: {first_line(error)}; "
            "model(), batch() and loss() of the model file must fit together",
            Exit.MODEL,
        ) from error
    finally:
        module.load_state_dict(state)
    if _random_states() != chances:
        raise UserError(
            "cannot export the model: it draws random numbers with Python or NumPy, which would be the same in every "
            "step of a program; use nn.Dropout",
            Exit.UNSUPPORTED,
        )
    replaced = [name for name, buffer in module.named_buffers() if buffer is not buffers.get(name, buffer)]
    if replaced:
        raise UserError(
            f"cannot export the model: forward() replaces its buffer {strip_wrapper(replaced[0])}, which a program "
            "cannot; change it in place, for example with copy_()",
            Exit.UNSUPPORTED,
        )
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise UserError(
            f"cannot train on loss(): it returned {found}, not a scalar tensor; reduce it, for example with .mean()",
            Exit.MODEL,
        )


def no_gradient(module: nn.Module, batch: tuple[Tensor, ...]) -> UserError:
    """Why torch.export found none, of a parameter or at all."""
    trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    value = module(*batch)
    if not value.requires_grad:
        return UserError(
            "cannot train on loss(): it does not depend on any trainable parameter; compute it from the model's "
            "output without detach(), no_grad() or integers",
            Exit.MODEL,
        )
    found = torch.autograd.grad(value, list(trainable.values()), allow_unused=True)
    for name, gradient in zip(trainable, found, strict=True):
        if gradient is None:
            return UserError(
                f"cannot train {strip_wrapper(name)}: the loss does not depend on it, or only through detach() or "
                "no_grad(); freeze it with requires_grad_(False)",
                Exit.MODEL,
            )
    return UserError(
        "cannot export the model: it has a torch.autograd.Function, whose own gradient torch.export does not keep; "
        "for a value y that is to have the gradient of x, write x + (y - x).detach()",
        Exit.UNSUPPORTED,
    )


def _random_states() -> tuple[Any, bytes, int]:
    numpy_state = np.random.get_state(legacy=False)["state"]
    return random.getstate(), bytes(numpy_state["key"]), numpy_state["pos"]


def first_line(error: BaseException) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[0] if lines else "no message"
