"""The measurement of `daf bench kernels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from daf import native
from daf.exporter.load import load_model_file
from daf.tools.bench_results import Action, Result, Stopwatch, Times, n_threads, say

aten = torch.ops.aten
MIN_SLICE_S, QUICK_SLICE_S = 0.02, 0.005
TORCH = f"PyTorch {torch.__version__}"
STOCK = "ExecuTorch's kernel"

# m, n, k of products of the zoo's transformers: MiniLM 32x64, RoBERTa 8x128, GPT-2 2x128.
SQUARES = (256, 512, 1024, 2048)
ZOO_PRODUCTS = (
    (2048, 384, 384),
    (2048, 1536, 384),
    (2048, 384, 1536),
    (1024, 768, 768),
    (1024, 3072, 768),
    (1024, 768, 3072),
    (256, 1024, 1024),
    (256, 4096, 1024),
    (256, 1024, 4096),
)
CONVOLUTIONS: tuple[tuple[str, dict[str, str]], ...] = (("resnet18", {}), ("mobilenet_v2", {"resolution": "96"}))


@dataclass(frozen=True)
class Bench:
    threads: int
    repeats: int
    min_slice_s: float

    def result(self, name: str, setting: str, amount: float, unit: str, ours: Action, peer: Action) -> Result:
        """`amount` of work per call: results are speeds."""
        times = Stopwatch(self.threads, self.min_slice_s).compare(ours, peer, self.repeats)
        return self.speed(name, setting, amount, unit, times)

    def speed(self, name: str, setting: str, amount: float, unit: str, times: Times) -> Result:
        where = f"{setting}, {n_threads(self.threads)}"
        return Result(name, where, amount / times.ours, TORCH, amount / times.peer, unit, times.spread)


def run_bench(threads: Sequence[int], repeats: int, quick: bool) -> list[Result]:
    results: list[Result] = []
    for n in threads:
        native.set_threads(n)
        torch.set_num_threads(n)
        bench = Bench(n, repeats, QUICK_SLICE_S if quick else MIN_SLICE_S)
        say(f"kernels, {n_threads(n)}")
        with torch.no_grad():
            results += _products(bench, quick)
            for model, settings in CONVOLUTIONS[: 1 if quick else None]:
                results += _convolutions(bench, model, {**settings, "batch_size": "4" if quick else "32"}, quick)
            results += _passes_over_memory(bench)
    native.set_threads(1)
    torch.set_num_threads(1)
    return [*results, *_stock()]


def _random(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _call(name: str, *arguments: Any) -> Action:
    return native.OperatorCall(name, arguments).run


def _products(bench: Bench, quick: bool) -> Iterator[Result]:
    squares = [(n, n, n) for n in (SQUARES[:3] if quick else SQUARES)]
    for m, n, k in [*squares, *(ZOO_PRODUCTS[:3] if quick else ZOO_PRODUCTS)]:
        a, b, c = _random(m, k), _random(n, k), _random(m, n)
        ta, tb, tc = torch.from_numpy(a), torch.from_numpy(b).t(), torch.from_numpy(c.copy())
        ours = _call("daf::gemm.out", a, b, None, False, True, c)
        peer = partial(torch.mm, ta, tb, out=tc)
        yield bench.result("gemm", f"{m}x{n}x{k}, b transposed", 2e-9 * m * n * k, "GFLOP/s", ours, peer)


# ---- convolution ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    x: tuple[int, ...]
    weight: tuple[int, ...]
    y: tuple[int, ...]
    stride: int
    padding: int
    groups: int

    @property
    def gflop(self) -> float:
        n_taps = self.weight[1] * self.weight[2] * self.weight[3]
        return 2e-9 * float(np.prod(self.y)) * n_taps

    def __str__(self) -> str:
        kind = "depthwise " if self.groups > 1 else ""
        size = "x".join(map(str, self.x))
        return f"{size} -> {self.weight[0]}, {kind}{self.weight[2]}x{self.weight[3]}, stride {self.stride}"


def _layers(model: str, settings: dict[str, str]) -> Counter[Layer]:
    """The convolutions that one forward runs, and how often each."""
    layers: Counter[Layer] = Counter()

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        assert isinstance(module.padding[0], int)
        shapes = tuple(inputs[0].shape), tuple(module.weight.shape), tuple(output.shape)
        layers[Layer(*shapes, module.stride[0], module.padding[0], module.groups)] += 1

    file = load_model_file(model, settings)
    network = file.make_model()
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
    network(*file.make_batch()[:-1])
    return layers


def _convolutions(bench: Bench, model: str, settings: dict[str, str], quick: bool) -> Iterator[Result]:
    """Each layer, forward and backward, then the sum over all layers of the model."""
    layers = _layers(model, settings)
    sums: dict[str, list[float]] = {}
    setting = f"{model}, batch {settings['batch_size']}"
    for layer, count in layers.items():
        for direction, gflop, ours, peer in _directions(layer):
            times = Stopwatch(bench.threads, bench.min_slice_s).compare(ours, peer, bench.repeats)
            total = sums.setdefault(direction, [0.0] * 4)
            for i, value in enumerate((gflop, times.ours, times.peer, times.peer * times.spread)):
                total[i] += count * value
            if not quick:
                yield bench.speed(f"convolution {direction}", str(layer), gflop, "GFLOP/s", times)
    for direction, (gflop, ours_s, peer_s, spread_s) in sums.items():
        times = Times(ours_s, peer_s, spread_s / peer_s)
        yield bench.speed(f"convolutions {direction}", f"sum of {setting}", gflop, "GFLOP/s", times)


def _directions(layer: Layer) -> Iterator[tuple[str, float, Action, Action]]:
    x, weight, y, grad = (_random(*shape) for shape in (layer.x, layer.weight, layer.y, layer.y))
    grad_x, grad_weight = np.empty_like(x), np.empty_like(weight)
    geometry = [[layer.stride] * 2, [layer.padding] * 2, [1, 1], layer.groups]
    tx, tw, tg = (torch.from_numpy(array) for array in (x, weight, grad))
    forward = _call("daf::convolution.out", x, weight, None, *geometry, y)
    yield "forward", layer.gflop, forward, partial(aten.conv2d, tx, tw, None, *geometry)
    of_input = _call("daf::convolution_input_grad.out", grad, weight, None, list(layer.x[2:]), *geometry, grad_x)
    of_weight = _call("daf::convolution_weight_grad.out", grad, x, list(layer.weight[2:]), *geometry, grad_weight)
    *place, groups = geometry

    def backward() -> None:
        of_input()
        of_weight()

    def peer() -> None:
        aten.convolution_backward(tg, tx, tw, None, *place, False, [0, 0], groups, [True, True, False])

    yield "backward", 2 * layer.gflop, backward, peer


# ---- passes over memory -----------------------------------------------------------------------------------------


def _passes_over_memory(bench: Bench) -> Iterator[Result]:
    """Speed in GB/s of what must be read and written."""
    for name, setting, n_arrays, ours, peer in _pass_cases():
        yield bench.result(name, setting[0], 4e-9 * n_arrays * setting[1], "GB/s", ours, peer)


def _pass_cases() -> Iterator[tuple[str, tuple[str, int], int, Action, Action]]:
    image, rows = (32, 64, 32, 32), (2048, 768)
    x, grad, y, channel, other = _random(*image), _random(*image), _random(*image), abs(_random(64)), _random(64)
    tx, tgrad, tc = torch.from_numpy(x), torch.from_numpy(grad), torch.from_numpy(channel)
    size = ("32x64x32x32", x.size)
    outs = [np.empty_like(channel) for _ in range(4)]

    train = _call("daf::batch_norm_train.out", x, channel, channel, channel, channel, 0.1, 1e-5, y, *outs)
    peer: Action = partial(torch.native_batch_norm, tx, tc, tc, tc.clone(), tc.clone(), True, 0.1, 1e-5)
    yield "batch_norm", size, 3, train, peer
    mean, rstd = tx.mean((0, 2, 3)), tx.var((0, 2, 3), correction=0).add(1e-5).rsqrt()
    backward = _call(
        "daf::batch_norm_backward.out", grad, x, channel, mean.numpy(), channel, True, 1e-5, y, other, outs[0]
    )
    peer = partial(aten.native_batch_norm_backward, tgrad, tx, tc, None, None, mean, rstd, True, 1e-5, [True] * 3)
    yield "batch_norm backward", size, 5, backward, peer
    yield "relu", size, 2, _call("daf::activation.out", x, "relu", 0.0, 0.0, y), lambda: torch.relu(tx)
    yield "add", size, 3, _call("daf::arithmetic.out", x, grad, "add", y), lambda: tx + tgrad

    x2, g2, y2, weight = _random(*rows), _random(*rows), _random(*rows), _random(rows[1])
    t2, tg2, tw = torch.from_numpy(x2), torch.from_numpy(g2), torch.from_numpy(weight)
    mean2, rstd2 = np.empty(rows[0], np.float32), np.empty(rows[0], np.float32)
    size = ("2048x768", x2.size)
    forward = _call("daf::layer_norm.out", x2, weight, weight, 1, 1e-5, y2, mean2, rstd2)
    yield "layer_norm", size, 2, forward, lambda: torch.native_layer_norm(t2, [rows[1]], tw, tw, 1e-5)
    forward()
    backward = _call(
        "daf::layer_norm_backward.out",
        g2,
        x2,
        weight,
        mean2,
        rstd2,
        1,
        y2,
        np.empty_like(weight),
        np.empty_like(weight),
    )
    tm, tr = torch.from_numpy(mean2)[:, None], torch.from_numpy(rstd2)[:, None]
    peer = partial(aten.native_layer_norm_backward, tg2, t2, [rows[1]], tm, tr, tw, tw, [True] * 3)
    yield "layer_norm backward", size, 3, backward, peer
    yield "softmax", size, 2, _call("daf::softmax.out", x2, 1, False, y2), lambda: torch.softmax(t2, 1)
    for kind, approximate in (("gelu", "none"), ("gelu_tanh", "tanh")):
        forward = _call("daf::activation.out", x2, kind, 0.0, 0.0, y2)
        yield kind, size, 2, forward, partial(F.gelu, t2, approximate=approximate)
        backward = _call("daf::activation_backward.out", g2, x2, kind, 0.0, 0.0, y2)
        peer = partial(aten.gelu_backward, tg2, t2, approximate=approximate)
        yield f"{kind} backward", size, 3, backward, peer
    dropped = _call("daf::dropout.out", x2, np.array([0, 0]), 0.1, 0, y2)
    yield "dropout", size, 2, dropped, lambda: F.dropout(t2, 0.1)
    yield from _optimizers(size, x2, g2)


def _optimizers(
    size: tuple[str, int], x: np.ndarray[Any, Any], g: np.ndarray[Any, Any]
) -> Iterator[tuple[str, tuple[str, int], int, Action, Action]]:
    lr, clock, state = np.array([1e-6], np.float32), np.array([3, 0]), [x.copy(), np.zeros_like(x), np.zeros_like(x)]
    parameter = nn.Parameter(torch.from_numpy(x.copy()))
    parameter.grad = torch.from_numpy(g)
    sgd = torch.optim.SGD([parameter], lr=1e-6, momentum=0.9)
    arguments = (*state[:2], g, lr, clock, 0.9, 0.0, 0.0, False, 0, state[0])
    yield "sgd with momentum", size, 5, _call("daf::sgd_momentum_", *arguments), sgd.step
    adamw = torch.optim.AdamW([parameter], lr=1e-6)
    arguments = (*state, g, lr, clock, 0.9, 0.999, 1e-8, 0.01, 0, state[0])
    yield "adamw", size, 7, _call("daf::adamw_", *arguments), adamw.step


def _stock() -> Iterator[Result]:
    """ExecuTorch's own kernels, on one thread; one call is enough to see how far they are."""
    a, b, c = _random(256, 256), _random(256, 256), _random(256, 256)
    x, weight, y = _random(1, 64, 32, 32), _random(64, 64, 3, 3), _random(1, 64, 32, 32)
    ones, transposed = [1, 1], (False, [0, 0], 1)
    cases = (
        (
            "gemm",
            "256x256x256",
            2e-9 * 256**3,
            ("daf::gemm.out", a, b, None, False, False, c),
            ("aten::mm.out", a, b, c),
        ),
        (
            "convolution forward",
            "1x64x32x32 -> 64, 3x3, stride 1",
            2e-9 * y.size * 9 * 64,
            ("daf::convolution.out", x, weight, None, ones, ones, ones, 1, y),
            ("aten::convolution.out", x, weight, None, ones, ones, ones, *transposed, y),
        ),
    )
    for name, setting, amount, ours, peer in cases:
        times = Stopwatch(1, 0.0).compare(_call(*ours), _call(*peer), 3)
        yield Result(
            name, f"{setting}, 1 thread", amount / times.ours, STOCK, amount / times.peer, "GFLOP/s", times.spread
        )
