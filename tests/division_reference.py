"""DIVISION in plain PyTorch: what a tensor is after it was compressed and restored, given the rounding noise."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

GROUP = 256


def rounding_noise(n: int, seed: int, step: int, tensor: int = 0) -> Tensor:
    """16 random bits for each of n values, as runtime_ops/kernels/scalar/plane_group.h draws them."""
    with np.errstate(over="ignore"):
        key = _mix(_mix(_mix(np.uint64(seed)) + np.uint64(step)) + np.uint64(tensor))
        n_groups = -(-n // GROUP)
        keys = _mix(key + np.arange(n_groups, dtype=np.uint64))[:, None]
        low, high = keys.astype(np.uint32), (keys >> np.uint64(32)).astype(np.uint32)
        state = low + np.arange(16, dtype=np.uint32) * np.uint32(0x9E3779B9)
        state ^= state >> np.uint32(16)
        state *= np.uint32(0x7FEB352D)
        state ^= state >> np.uint32(15)
        state += high
        state *= np.uint32(0x846CA68B)
        state ^= state >> np.uint32(16)
        words = []
        for _ in range(GROUP // 32):
            state = state * np.uint32(0x915F77F5) + np.uint32(0x3C6EF35F)
            words += [state & np.uint32(0xFFFF), state >> np.uint32(16)]
    return torch.from_numpy(np.concatenate(words, axis=1).reshape(-1)[:n].astype(np.int64))


def _mix(v: np.uint64 | np.ndarray) -> np.uint64:  # type: ignore[type-arg]
    v = v + np.uint64(0x9E3779B97F4A7C15)
    v = (v ^ v >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    v = (v ^ v >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return v ^ v >> np.uint64(31)  # type: ignore[return-value]


def restored(maps: Tensor, block: tuple[int, int], bits: int, noise: Tensor, read_bits: int | None = None) -> Tensor:
    """`maps` is [n, height, width]; `block` is not larger than they are.

    read_bits: planes that are left; what the others said is taken to be in the middle.
    """
    height, width = maps.shape[1:]
    lfc = F.avg_pool2d(maps.double(), block, stride=block).float().bfloat16().float()
    low = F.interpolate(lfc[:, None], size=(height, width), mode="nearest")[:, 0]
    high = maps - low
    minimum = _bfloat16_down(high.amin((1, 2), keepdim=True))
    scale = _bfloat16_up((high.amax((1, 2), keepdim=True) - minimum) / (2**bits - 1))
    fixed = torch.where(scale > 0, (high - minimum) * (2.0**16 / scale), 0.0).to(torch.int64)
    code = (fixed + noise.view(maps.shape) >> 16).clamp_max(2**bits - 1)
    missing = bits - (bits if read_bits is None else read_bits)
    base = minimum + scale * ((2.0**missing - 1) / 2)
    return low + (base + scale * 2.0**missing * (code >> missing).float())


def _bfloat16_down(x: Tensor) -> Tensor:
    near = x.bfloat16()
    return torch.where(near.float() > x, torch.nextafter(near, torch.tensor(-torch.inf).bfloat16()), near).float()


def _bfloat16_up(x: Tensor) -> Tensor:
    return -_bfloat16_down(-x)
