"""The memory that the same training takes in PyTorch, and the naive way to save it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from daf.exporter.load import load_model_file
from daf.tools.eager import make_optimizer

GROUP = 256


@dataclass(frozen=True)
class EagerMemory:
    saved_bytes: int  # that backward reads: neither parameters nor the batch
    peak_bytes: int  # resident, above the process with PyTorch loaded


def measure_eager(
    model: str, settings: dict[str, str], optimizer: Mapping[str, Any], steps: int, checkpointing: bool = False
) -> EagerMemory:
    """In a process of its own: in another one, what was there before could be given back meanwhile."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, model, settings, optimizer, steps, checkpointing).result()


def _measure(
    model: str, settings: dict[str, str], optimizer: Mapping[str, Any], steps: int, checkpointing: bool
) -> EagerMemory:
    torch.set_num_threads(1)
    model_file = load_model_file(model, settings)
    warm_up = nn.Linear(8, 8)  # what the libraries allocate once: the first optimizer loads torch._dynamo, 80 MB
    warm_up(torch.zeros(1, 8)).sum().backward()
    make_optimizer(warm_up, optimizer).step()
    baseline = _status_bytes("VmRSS")
    network = model_file.make_model().train()
    batch = model_file.make_batch()
    trainer = make_optimizer(network, optimizer)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    saved = 0
    found: dict[int, int] = {}
    if checkpointing:
        checkpoint_blocks(network, found)
    for _ in range(steps):
        trainer.zero_grad()
        found.clear()
        with _CountSaved(network, batch, found):
            loss = model_file.loss(network(*batch[:-1]), batch[-1])
        saved = max(saved, sum(found.values()))
        loss.backward()
        trainer.step()
    return EagerMemory(saved, _status_bytes("VmHWM") - baseline)


def checkpoint_blocks(network: nn.Module, found: dict[int, int]) -> None:
    """The blocks of a network keep their input only, whose storage goes into `found`, and run again in backward."""
    for child in network.children():
        if not isinstance(child, nn.Sequential | nn.ModuleList):
            checkpoint_blocks(child, found)
            continue
        for block in child:
            block.forward = _checkpointed(block.forward, found)


def _checkpointed(forward: Callable[..., Tensor], found: dict[int, int]) -> Callable[..., Tensor]:
    def run(x: Tensor, *rest: Any) -> Tensor:
        storage = x.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return checkpoint(forward, x, *rest, use_reentrant=False)  # type: ignore[no-any-return]

    return run


def _status_bytes(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


class _CountSaved(saved_tensors_hooks):
    """Puts the size of every storage that is saved into `found`, each once."""

    def __init__(self, network: nn.Module, batch: tuple[Tensor, ...], found: dict[int, int]) -> None:
        own = {t.untyped_storage().data_ptr() for t in (*network.parameters(), *network.buffers(), *batch)}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        super().__init__(pack, lambda tensor: tensor)


@dataclass(frozen=True)
class _Packed:
    shape: torch.Size
    words: Tensor
    low: Tensor
    step: Tensor


class QuantizedSavedTensors(saved_tensors_hooks):
    """Compresses what backward needs as GACT does: with PyTorch's operators, in the hooks of autograd.

    Groups of 256 values, their minimum and step, stochastic rounding, several values in a byte.
    """

    def __init__(self, network: nn.Module, bits: int) -> None:
        weights = {t.untyped_storage().data_ptr() for t in (*network.parameters(), *network.buffers())}

        def pack(tensor: Tensor) -> Tensor | _Packed:
            if tensor.dtype != torch.float32 or tensor.numel() < 4 * GROUP:
                return tensor
            if tensor.untyped_storage().data_ptr() in weights:
                return tensor
            return _quantize(tensor, bits)

        def unpack(saved: Tensor | _Packed) -> Tensor:
            return _dequantize(saved, bits) if isinstance(saved, _Packed) else saved

        super().__init__(pack, unpack)


def _quantize(x: Tensor, bits: int) -> _Packed:
    flat = x.detach().flatten()
    groups = nn.functional.pad(flat, (0, -flat.numel() % GROUP)).view(-1, GROUP)
    low = groups.amin(1, keepdim=True)
    step = (groups.amax(1, keepdim=True) - low).div_(2**bits - 1).clamp_(min=1e-30)
    values = (groups - low).div_(step).add_(torch.rand_like(groups)).floor_().clamp_(0, 2**bits - 1).to(torch.uint8)
    words = torch.zeros(values.shape[0], GROUP * bits // 8, dtype=torch.uint8)
    per_byte = 8 // bits
    for place in range(per_byte):
        words |= values[:, place::per_byte] << (bits * place)
    return _Packed(x.shape, words, low, step)


def _dequantize(packed: _Packed, bits: int) -> Tensor:
    per_byte = 8 // bits
    parts = [(packed.words >> (bits * place)) & (2**bits - 1) for place in range(per_byte)]
    values = torch.stack(parts, 2).view(-1, GROUP).to(torch.float32)
    flat = values.mul_(packed.step).add_(packed.low).flatten()
    return flat[: packed.shape.numel()].view(packed.shape)
