"""`daf-export --check`: one step of the exported program against PyTorch eager."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from daf import native
from daf.exporter.eager import in_double, loss_and_gradients
from daf.exporter.fuse_optimizer import AdamW, Sgd, optimizer_state_name

if TYPE_CHECKING:
    from daf.exporter.pipeline import Export

LIMIT = 1e-3
# A gradient this small beside the largest one is 0 in theory (of a bias before BatchNorm, for one): what is left of it
# is rounding noise, in float64 too, and can only be compared with the largest.
_ZERO = 1e-9
# Gradients this small beside the largest one are judged as if they were this large.
_SMALL = 1e-3
# Without momentum the gradient is read off the change of the weight: a large step drowns the weight's own rounding.
LARGE_LR = 1e4
# Two float32 computations are equally far from float64, up to luck.
_LUCK = 2.0
# Compressed activations are rounded up or down by chance: so many steps are averaged, and their mean may be so many
# standard errors off.
N_ROUNDINGS = 16
_STANDARD_ERRORS = 5


@dataclass(frozen=True)
class CheckResult:
    loss: float
    eager_loss: float
    errors: dict[str, float]  # parameter -> relative error of its gradient
    eager_error: float = 0.0  # of eager's own float32 gradients against float64; looked at only when it matters
    noise: float | None = None  # of one step's gradients, relative, where activations are compressed

    @property
    def worst(self) -> tuple[str, float]:
        name = max(self.errors, key=lambda name: (math.isnan(self.errors[name]), self.errors[name]))
        return name, self.errors[name]

    @property
    def loss_error(self) -> float:
        return abs(self.loss - self.eager_loss) / max(abs(self.eager_loss), 1e-12)

    @property
    def limit(self) -> float:
        """Where float32 itself is far from float64, no program can be nearer."""
        return max(LIMIT, _LUCK * self.eager_error)

    @property
    def passed(self) -> bool:
        return self.loss_error <= LIMIT and self.worst[1] <= self.limit  # False for NaN


def check(export: Export) -> CheckResult:
    """Runs the program that was written, in this process; nothing of it is kept.

    The reference is eager in float64. In float32 a ReLU whose input is within rounding of 0 may go either way and
    shift a gradient by 1e-3 or more, and large models have such ReLUs: where the program differs from float64, it may
    agree with eager's float32, or be as far from float64 as that.
    """
    assert export.written is not None
    written = export.written
    session = native.Session(str(written.program), str(written.manifest_path))
    if export.options.activations != "fp32":
        return _check_on_average(export, session)
    loss = session.step([t.numpy() for t in export.batch], LARGE_LR)
    found = program_gradients(export, session)
    loss_of = export.options.file.loss
    exact = None
    with suppress(RuntimeError):  # the model file itself holds float32 tensors
        exact_loss, exact = loss_and_gradients(*in_double(export.model, export.batch), loss_of)
        exact = {name: of_chosen(export, session, name, grad) for name, grad in exact.items()}
    if exact is not None:
        result = CheckResult(loss, exact_loss, relative_errors(found, exact))
        if result.passed:
            return result
    eager_loss, eager = loss_and_gradients(export.model, export.batch, loss_of)
    eager = {name: of_chosen(export, session, name, grad) for name, grad in eager.items()}
    errors = relative_errors(found, eager)
    if exact is None:
        return CheckResult(loss, eager_loss, errors)
    errors = {name: min(error, result.errors[name]) for name, error in errors.items()}
    return CheckResult(loss, eager_loss, errors, max(relative_errors(eager, exact).values()))


def _check_on_average(export: Export, session: Any) -> CheckResult:
    """One step, again and again, with nothing different but what is rounded up: a gradient's mean must not be farther
    from eager's than its spread explains."""
    initial, batch = session.state(), [t.numpy() for t in export.batch]
    sums: dict[str, Tensor] = {}
    squares: dict[str, float] = {}
    for seed in range(N_ROUNDINGS):
        session.set_rounding_seed(seed)
        session.set_step_count(0)
        loss = session.step(batch, LARGE_LR)
        for name, gradient in program_gradients(export, session).items():
            gradient = gradient.double()
            sums[name] = sums[name] + gradient if name in sums else gradient
            squares[name] = squares.get(name, 0.0) + _square(gradient)
        session.set_state(initial)
    eager_loss, eager = loss_and_gradients(export.model, export.batch, export.options.file.loss)
    eager = {name: of_chosen(export, session, name, gradient) for name, gradient in eager.items()}
    sizes = {name: _square(gradient) for name, gradient in eager.items()}
    errors, noise = {}, 0.0
    for name, gradient in eager.items():
        mean = sums[name] / N_ROUNDINGS
        variance = max(0.0, squares[name] - N_ROUNDINGS * _square(mean)) / (N_ROUNDINGS - 1)
        off = math.sqrt(_square(mean - gradient.reshape(mean.shape)))
        allowed = _STANDARD_ERRORS * math.sqrt(variance / N_ROUNDINGS)
        scale = max(sizes[name], _SMALL**2 * max(sizes.values()), 1e-30)
        errors[name] = 0.0 if off <= allowed else (off - allowed) / math.sqrt(scale)  # NaN stays NaN
        noise += variance
    return CheckResult(loss, eager_loss, errors, noise=math.sqrt(noise / max(sum(sizes.values()), 1e-30)))


def _square(gradient: Tensor) -> float:
    return float((gradient.double() ** 2).sum())


def program_gradients(export: Export, session: Any) -> dict[str, Tensor]:
    """The gradients of the first step, taken from what the optimizer made of them.

    Of a weight of which some channels train, [chosen channel, its weights]: `of_chosen` makes others like it.
    """
    optimizer = export.options.optimizer
    initial = dict(export.model.named_parameters(remove_duplicate=False))
    if not isinstance(optimizer, Sgd | AdamW):
        outputs = session.outputs()
        return {name: torch.from_numpy(outputs[f"grad:{name}"]) for name in export.trained}
    state = session.state()
    found = {}
    for name in export.trained:
        weight = of_chosen(export, session, name, initial[name].detach())
        if isinstance(optimizer, AdamW):
            found[name] = torch.from_numpy(state[optimizer_state_name(name, "exp_avg")]) / (1 - optimizer.beta1)
        elif optimizer.momentum:
            applied = torch.from_numpy(state[optimizer_state_name(name, "momentum_buffer")])
            found[name] = applied - optimizer.weight_decay * weight
        else:
            now = of_chosen(export, session, name, torch.from_numpy(state[name]))
            applied = (weight - now) / LARGE_LR
            found[name] = applied - optimizer.weight_decay * weight
    return found


def of_chosen(export: Export, session: Any, name: str, whole: Tensor) -> Tensor:
    """Of a tensor like the parameter `name`, what belongs to the channels that train."""
    layer = export.update.sparse.get(name)
    if layer is None:
        return whole
    chosen = torch.from_numpy(session.state()[f"{name}.index"])[0]
    shape = whole.shape
    outer = int(torch.Size(shape[: layer.channels.axis]).numel())
    return whole.reshape(outer, layer.channels.n, -1)[:, chosen].transpose(0, 1).reshape(len(chosen), -1)


def relative_errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Largest difference over the largest gradient, per parameter; tiny gradients against the model's largest."""
    sizes = {name: float(grad.abs().max()) if grad.numel() else 0.0 for name, grad in expected.items()}
    largest = max(sizes.values())

    def scale(name: str) -> float:
        size = sizes[name]
        return max(largest if size < _ZERO * largest else max(size, _SMALL * largest), 1e-30)

    return {
        name: float((found[name].reshape(grad.shape) - grad).abs().max()) / scale(name) if grad.numel() else 0.0
        for name, grad in expected.items()
    }
