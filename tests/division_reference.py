"""DIVISION in plain PyTorch: what a tensor is after it was compressed and restored, given the rounding noise."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

GROUP = 256


def rounding_noise(n: int, seed: int, step: int, tensor: int = 0) -> Tensor:
    """8 random bits for each of n values, as runtime_ops/kernels/common/plane_noise.h draws them."""
    with np.errstate(over="ignore"):
        key = _mix(_mix(_mix(np.uint64(seed)) + np.uint64(step)) + np.uint64(tensor)).astype(np.uint32)
        groups = np.arange(-(-n // GROUP), dtype=np.uint32)[:, None]
        starts = _hash(key + groups * np.uint32(0x9E3779B9))
        words = _hash(starts + np.arange(GROUP // 4, dtype=np.uint32) * np.uint32(0x9E3779B9))
    return torch.from_numpy(words.astype("<u4").view(np.uint8).reshape(-1)[:n].astype(np.int64))


def _hash(v: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    v = (v ^ v >> np.uint32(16)) * np.uint32(0x7FEB352D)
    v = (v ^ v >> np.uint32(15)) * np.uint32(0x846CA68B)
    return v ^ v >> np.uint32(16)  # type: ignore[no-any-return]


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
    fixed = torch.where(scale > 0, (high - minimum) * (2.0**8 / scale), 0.0).round().to(torch.int64)
    code = (fixed + noise.view(maps.shape) >> 8).clamp_max(2**bits - 1)
    missing = bits - (bits if read_bits is None else read_bits)
    base = minimum + scale * ((2.0**missing - 1) / 2)
    return low + (base + scale * 2.0**missing * (code >> missing).float())


def _bfloat16_down(x: Tensor) -> Tensor:
    near = x.bfloat16()
    return torch.where(near.float() > x, torch.nextafter(near, torch.tensor(-torch.inf).bfloat16()), near).float()


def _bfloat16_up(x: Tensor) -> Tensor:
    return -_bfloat16_down(-x)
