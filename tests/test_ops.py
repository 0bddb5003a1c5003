"""Every `daf::` operator, run inside an ExecuTorch program, against PyTorch in float64.

This covers schema, adapter and kernel together: an argument that is read in the wrong order or a wrong output
shape shows here, whoever made the mistake.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from op_cases import CASES, Case, rand
from op_programs import OPERATORS, Calls, Program, in_place_program, is_tensor, lower, run_all
from torch import Tensor

import daf.exporter.ops
from daf import native


def in_float64(args: Sequence[Any]) -> list[Any]:
    return [arg.double() if is_tensor(arg) and arg.is_floating_point() else arg for arg in args]


def assert_equal_to_float32(actual: Sequence[Tensor], expected: Sequence[Tensor], what: str) -> None:
    """Up to the rounding of float32, whose size follows the largest number of the result."""
    assert len(actual) == len(expected), what
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if not e.is_floating_point():
            assert torch.equal(a, e), f"{what} {i}"
            continue
        assert a.dtype == torch.float32, what
        largest = float(e.abs().nan_to_num().max()) if e.numel() else 0.0
        tolerance = {"rtol": 1e-5, "atol": 4e-6 * largest}
        torch.testing.assert_close(
            a.double(), e, **tolerance, equal_nan=True, msg=lambda text, i=i: f"{what} {i}: {text}"
        )


# ---- against PyTorch --------------------------------------------------------------------------------------------

FUNCTIONAL = sorted({case.operator for case in CASES})
BATCHED = [case for case in CASES if case.batched]
LARGEST_BATCH = 4


def assert_cases(cases: Sequence[Case], returned: Sequence[Tensor], args_of: Callable[[Case], Sequence[Any]]) -> None:
    """`returned` are the outputs of a program that calls the cases one after the other."""
    rest = iter(returned)
    for case in cases:
        expected = case.reference(*in_float64(args_of(case)))
        expected = [expected] if is_tensor(expected) else expected
        assert_equal_to_float32(list(itertools.islice(rest, len(expected))), expected, str(case))
    assert not list(rest)


@pytest.mark.parametrize("operator", FUNCTIONAL)
def test_equals_torch(operator: str) -> None:
    """All cases in one program: exporting one takes longer than all that it computes."""
    cases = [case for case in CASES if case.operator == operator]
    assert_cases(cases, run_all([(operator, case.args) for case in cases]), lambda case: case.args)


def with_batch(n: int, case: Case) -> list[Any]:
    return [torch.cat([arg, arg])[:n] if i in case.batched else arg for i, arg in enumerate(case.args)]


def tensors_with_batch(n: int) -> list[Tensor]:
    return [arg for case in BATCHED for arg in with_batch(n, case) if is_tensor(arg)]


def test_batch_is_dynamic() -> None:
    """Smaller than exported, and empty. All operators share one program and its batch axis."""
    axis = torch.export.Dim("batch", max=LARGEST_BATCH)
    places = [i in case.batched for case in BATCHED for i, arg in enumerate(case.args) if is_tensor(arg)]
    shapes = tuple({0: axis} if batched else None for batched in places)
    calls = Calls([(case.operator, case.args) for case in BATCHED])
    program = Program(lower(calls, tensors_with_batch(LARGEST_BATCH), dynamic_shapes=(shapes,)))
    for n in (LARGEST_BATCH, 2, 0, 3):
        assert_cases(BATCHED, program(tensors_with_batch(n)), functools.partial(with_batch, n))


# They run within the step of a session that has a store: test_store_training.py has them.
NEED_A_STORE = (
    "activation_with_mask",
    "masked_gradient",
    "stash",
    "fetch",
    "stored_activation_backward",
    "stored_batch_gemm",
    "stored_batch_norm_backward",
    "stored_convolution_weight_grad",
    "stored_gemm",
    "stored_layer_norm_backward",
    "stored_softmax_backward",
)


def test_covers_every_operator() -> None:
    registered = {name for name in OPERATORS if name.startswith("daf::")}
    in_place = {f"daf::{name}" for name in daf.exporter.ops.IN_PLACE}
    elsewhere = {f"daf::{name}.out" for name in ("dropout", *NEED_A_STORE)}
    assert registered == {f"daf::{name}.out" for name in FUNCTIONAL} | elsewhere | in_place
    assert {case.operator for case in BATCHED} == set(FUNCTIONAL)


# ---- random numbers and optimizers ------------------------------------------------------------------------------


def test_dropout() -> None:
    x, grad, p, step, seed, layer = rand(80, 80), rand(80, 80), 0.25, 3, 7, 2
    clock = torch.tensor([step, seed])
    others = [(torch.tensor([step + 1, seed]), layer), (torch.tensor([step, seed + 1]), layer), (clock, layer + 1)]
    calls = [("dropout", (x, clock, p, layer)), ("dropout", (grad, clock, p, layer))]
    calls += [("dropout", (x, other, p, other_layer)) for other, other_layer in others]
    calls += [("dropout", (x, clock, 0.0, layer)), ("dropout", (x, clock, 1.0, layer))]
    y, grad_x, *redrawn, with_0, with_1 = run_all(calls)

    kept = y != 0
    assert abs(float(kept.float().mean()) - 0.75) < 0.02  # more than 3 standard deviations of 6400 draws
    torch.testing.assert_close(y, torch.where(kept, x / 0.75, 0))
    torch.testing.assert_close(grad_x, torch.where(kept, grad / 0.75, 0))
    for other in redrawn:
        assert 0.3 < float(((other != 0) != kept).float().mean()) < 0.45  # independent masks: 2 p (1 - p) = 0.375
    assert torch.equal(with_0, x)
    assert torch.equal(with_1, torch.zeros_like(x))
    assert torch.equal(y, torch.from_numpy(native.dropout(x.numpy(), p, seed, step, layer)))


N_STEPS = 4


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.3, False), (0.9, 0.0, True)]
)
def test_sgd(momentum: float, dampening: float, nesterov: bool, weight_decay: float) -> None:
    weight, grads, lr = rand(3, 5), [rand(3, 5) for _ in range(N_STEPS)], torch.tensor([0.2])
    settings = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
    clocks = [torch.tensor([step, 0]) for step in range(N_STEPS)]
    if momentum:
        state = [weight, rand(3, 5)]  # the buffer's first value does not count
        program = in_place_program("sgd_momentum_", state, (grads[0], lr, clocks[0], *settings.values(), 0))
        for grad, clock in zip(grads, clocks, strict=True):
            state = program([*state, grad, lr, clock])
    else:
        state = [weight]
        program = in_place_program("sgd_", state, (grads[0], lr, weight_decay, 0))
        for grad in grads:
            state = program([*state, grad, lr])

    expected = weight.double().requires_grad_()
    optimizer = torch.optim.SGD([expected], lr=0.2, **settings)
    for grad in grads:
        expected.grad = grad.double()
        optimizer.step()
    buffer = [optimizer.state[expected]["momentum_buffer"]] if momentum else []
    assert_equal_to_float32(state, [expected.detach(), *buffer], "state")


def test_adamw() -> None:
    weight, grads, lr = rand(3, 5), [rand(3, 5) for _ in range(N_STEPS)], torch.tensor([0.02])
    state = [weight, torch.zeros(3, 5), torch.zeros(3, 5)]
    program = in_place_program("adamw_", state, (grads[0], lr, torch.tensor([0, 0]), 0.8, 0.95, 1e-6, 0.1, 0))
    for step, grad in enumerate(grads):
        state = program([*state, grad, lr, torch.tensor([step, 0])])

    expected = weight.double().requires_grad_()
    optimizer = torch.optim.AdamW([expected], lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
    for grad in grads:
        expected.grad = grad.double()
        optimizer.step()
    moments = optimizer.state[expected]
    assert_equal_to_float32(state, [expected.detach(), moments["exp_avg"], moments["exp_avg_sq"]], "state")


@pytest.mark.parametrize(("axis", "block"), [(0, 1), (0, 2), (1, 1)])
def test_optimizers_of_chosen_channels(axis: int, block: int) -> None:
    """Each channel goes the way of a parameter of its own, with the steps that it has trained."""
    shape, chosen, since, first_step = (6, 5, 2), [0, 2], [3, 1], 3
    weight, lr = rand(*shape), torch.tensor([0.02])
    entries = [[channel * block + i for i in range(block)] for channel in chosen]
    places = [(slice(None),) * axis + (entry,) for entry in entries]
    n = weight[places[0]].numel()
    grads = [rand(*(2 * block if i == axis else size for i, size in enumerate(shape))) for _ in range(N_STEPS)]
    index = torch.tensor([chosen, since])
    state = [weight, torch.zeros(2, n), torch.zeros(2, n), torch.zeros(2)]
    clock = torch.tensor([first_step, 0])
    program = in_place_program(
        "adamw_channels_", state, (index, grads[0], lr, clock, 0.8, 0.95, 1e-6, 0.1, axis, block)
    )
    state[1][1] = rand(n)  # of the one that has trained
    before = [tensor.clone() for tensor in state]
    for step, grad in enumerate(grads):
        state = program([*state, index, grad, lr, torch.tensor([first_step + step, 0])])

    changed = weight.clone()
    for i, place in enumerate(places):
        expected = weight[place].double().requires_grad_()
        optimizer = torch.optim.AdamW([expected], lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
        optimizer.state[expected] = {
            "step": torch.tensor(float(first_step - since[i])),
            "exp_avg": before[1][i].double().reshape(expected.shape),
            "exp_avg_sq": before[2][i].double().reshape(expected.shape),
        }
        total = 0.0
        for grad in grads:
            part = grad[(slice(None),) * axis + (slice(i * block, (i + 1) * block),)]
            expected.grad = part.double()
            total += float(part.double().square().sum())
            optimizer.step()
        changed[place] = expected.detach().float()
        moments = optimizer.state[expected]
        found = [state[0][place], state[1][i].reshape(expected.shape), state[2][i].reshape(expected.shape)]
        assert_equal_to_float32(found, [expected.detach(), moments["exp_avg"], moments["exp_avg_sq"]], "state")
        assert float(state[3][i]) == pytest.approx(total, rel=1e-5)
    others = changed == weight
    assert torch.equal(state[0][others], weight[others])


# ---- refusals ---------------------------------------------------------------------------------------------------

_LINE = ([1], [0], [1], 1)  # stride, padding, dilation, groups
_POOL = ([2, 2], [2, 2], [0, 0], [1, 1])  # kernel, stride, padding, dilation
_LOG_P = rand(2, 10)
_CLOCK = torch.tensor([0, 0])

# operator, arguments, what the error says. Tracing lets all of these through: shapes of results only depend on some.
REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "gemm",
        (rand(2, 3), rand(4, 5), None, False, False),
        "b has shape [4, 5]: they do not multiply",
    ),
    (
        "gemm",
        (rand(2, 3, 4), rand(3, 4, 5), None, False, False),
        "b has shape [3, 4, 5]: they do not multiply",
    ),
    ("gemm", (rand(2, 3), rand(3, 5), rand(4), False, False), "bias has shape [4], expected [5]"),
    ("gemm", (rand(2, 3).double(), rand(3, 5), None, False, False), "a is Double, expected Float"),
    ("gemm", (rand(2, 3, 4), rand(2, 4, 5), rand(5), False, False), "a batch of products takes no bias"),
    (
        "gemm_add",
        (rand(2, 3), rand(3, 5), None, rand(5, 2), False, False, 1.0),
        "addend has shape [5, 2], expected [2, 5]",
    ),
    (
        "batch_gemm",
        (rand(2, 3, 4, 5), rand(2, 4, 3, 5), False, True, False, False, False, 1.0),
        "which do not fit each other",
    ),
    ("convolution", (rand(2, 3, 8), rand(4, 2, 3), None, *_LINE), "weight has shape [4, 2, 3], expected [4, 3, 3]"),
    ("convolution", (rand(2, 3, 8), rand(4, 3, 3), None, [1], [0], [1], 2), "not divided by 2 groups"),
    (
        "convolution",
        (rand(2, 3, 4, 4).to(memory_format=torch.channels_last), rand(4, 3, 1, 1), None, [1, 1], [0, 0], [1, 1], 1),
        "x is not contiguous",
    ),
    ("convolution_input_grad", (rand(2, 4, 8), rand(4, 3, 3), None, [9], *_LINE), "a map of 1x9 has 1x7 windows"),
    ("convolution_weight_grad", (rand(2, 4, 8), rand(3, 3, 8), [1], *_LINE), "batches of 2 and 3"),
    ("batch_norm_train", (rand(1, 3), None, None, None, None, 0.1, 1e-5), "one value per channel"),
    (
        "batch_norm_activation_eval",
        (rand(2, 3), None, None, rand(3), rand(3), 1e-5, "gelu", 0.0, 0.0),
        "only relu and hardtanh can be part of it",
    ),
    ("batch_norm_eval", (rand(2, 3), None, None, rand(3), rand(4), 1e-5), "var has shape [4], expected [3]"),
    ("layer_norm", (rand(2, 3), None, None, 3, 1e-5), "n_axes is 3, x has 2 axes"),
    ("group_norm", (rand(2, 6, 4), None, None, 4, 1e-5), "6 channels are not divided by 4 groups"),
    ("arithmetic", (rand(3), rand(3), "power"), "no arithmetic power"),
    ("add_activation", (rand(2, 3), rand(3), "relu", 0.0, 0.0), "other has shape [3], expected [2, 3]"),
    ("gemm_activation", (rand(2, 3), rand(3, 5), rand(3), False, False, "relu", 0.0, 0.0), "bias has shape [3]"),
    ("permute", (rand(2, 3), [0, 0]), "axis 0 is twice in axes"),
    ("expand", (rand(2, 3), [4, 3]), "cannot be repeated to [4, 3]"),
    ("masked_softmax", (rand(2, 3), rand(2, 2)), "mask has shape [2, 2], which cannot be repeated to [2, 3]"),
    ("activation", (rand(3), "swish9", 0.0, 0.0), "no activation swish9"),
    ("activation_backward", (rand(2), rand(3), "relu", 0.0, 0.0), "grad has shape [2], expected [3]"),
    ("softmax", (rand(2, 3), 2, False), "axis is 2"),
    ("nll_loss", (_LOG_P, torch.tensor([3, 12]), None, 1, -100), "daf::nll_loss: target 12 is outside [0, 10)"),
    ("nll_loss", (_LOG_P, torch.tensor([-1, 3]), None, 1, -100), "target -1 is outside [0, 10)"),
    ("nll_loss", (_LOG_P, torch.tensor([3, 1, 2]), None, 1, -100), "target has shape [3], expected [2]"),
    ("nll_loss", (_LOG_P, torch.tensor([3, 1], dtype=torch.int32), None, 1, -100), "target is Int, expected Long"),
    (
        "nll_loss_backward",
        (rand(), _LOG_P, torch.tensor([3, 10]), None, torch.tensor(2.0), 1, -100),
        "target 10 is outside [0, 10)",
    ),
    ("max_pool2d", (rand(1, 4, 4), [2, 2], [2, 2], [2, 0], [1, 1], False), "more than half of the window"),
    (
        "max_pool2d_backward",
        (rand(1, 2, 2), torch.zeros(1, 2, 2), [4, 4], *_POOL),
        "offset is Float, expected Int",
    ),
    (
        "max_pool2d_backward",
        (rand(1, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8), [9, 9], *_POOL),
        "a map of 9x9 does not pool to 2x2",
    ),
    ("embedding", (rand(7, 3), torch.tensor([6, 7])), "index 7 is outside [0, 7)"),
    ("embedding_backward", (rand(2, 3), torch.tensor([-1, 1]), 7, -1), "index -1 is outside [0, 7)"),
    ("dropout", (rand(3), _CLOCK, 1.5, 0), "p is 1.5"),
    ("dropout", (rand(3), torch.tensor([0]), 0.5, 0), "clock has shape [1], expected [2]"),
    ("sum_axes", (rand(2, 3), [2], False, False), "axis is 2"),
    ("gather_channels", (rand(2, 4, 3), torch.tensor([[0, 4], [0, 0]]), 1, 1), "channel 4 is outside [0, 4)"),
    ("gather_channels", (rand(2, 4, 3), torch.tensor([[-1], [0]]), 1, 1), "channel -1 is outside [0, 4)"),
    ("gather_channels", (rand(2, 4, 3), torch.tensor([[1], [0]]), 3, 1), "4 channels do not make 3 groups"),
    ("gather_channels", (rand(2, 4), torch.tensor([[1, 2]]), 1, 1), "index has shape [1, 2], expected [2, chosen]"),
    ("gather_channels", (rand(2, 4), torch.tensor([[1], [0]]), 1, 3), "channels of 3 do not make up 4"),
]


@pytest.mark.parametrize(("operator", "args", "message"), REFUSED, ids=[f"{r[0]}-{r[2]}" for r in REFUSED])
def test_refuses(operator: str, args: tuple[Any, ...], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="error: 0x12"):  # ExecuTorch's InvalidArgument
        run_all([(operator, args)])
    assert f"daf::{operator}: " in (log := capfd.readouterr().err)
    assert message in log
