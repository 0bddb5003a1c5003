"""DIVISION (Wang et al., ICML 2023): which maps a saved activation consists of, and what storing these costs.

A map is kept as the averages of its blocks (the low frequencies, bfloat16) and what these leave of it in a few bits
per element (the high ones), with one minimum and one scale. Pictures (N, C, H, W) are N x C maps of H x W. Sequences
(N, T, C) are N maps of T x C, averaged along the tokens alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.fx import Node

from daf.exporter.find_saved import is_view

daf = torch.ops.daf

LFC_BLOCK = 8
HFC_BITS = 2
SEQUENCE_HFC_BITS = 4
AVERAGE_BITS = 16
HEADER_BITS = 32  # minimum and scale of a map


@dataclass(frozen=True)
class Division:
    """What the user chose."""

    lfc_block: int = LFC_BLOCK
    hfc_bits: int | None = None  # None: HFC_BITS, of sequences SEQUENCE_HFC_BITS

    def bits(self, is_sequence: bool) -> int:
        return self.hfc_bits or (SEQUENCE_HFC_BITS if is_sequence else HFC_BITS)


@dataclass(frozen=True)
class MapEncoding:
    """As MapEncoding in runtime_ops/store/store.h."""

    height: int
    width: int
    block_height: int
    block_width: int

    @property
    def n_elements(self) -> int:
        return self.height * self.width

    @property
    def n_averages(self) -> int:
        return (self.height // self.block_height) * (self.width // self.block_width)

    @property
    def overhead_bits(self) -> float:
        """Of an element, beside its planes."""
        return (AVERAGE_BITS * self.n_averages + HEADER_BITS) / self.n_elements

    def numbers(self) -> tuple[int, int, int, int]:
        return self.height, self.width, self.block_height, self.block_width


def encode_maps(node: Node, batch_size: int, division: Division) -> tuple[MapEncoding | None, int]:
    """The maps of a saved activation, and bits of an element. None: by groups of 256 values, it has none or too small.

    Too small is where being small costs more than one more plane would: the average and the header of a map of 6 x 6
    take 1.33 bits of each element, where those of large maps take 0.25.
    """
    shape = [int(size) for size in node.meta["val"].shape]
    tokens = _tokens(node, shape, batch_size)
    bits = division.bits(is_sequence=tokens is not None)
    block = division.lfc_block
    if tokens is not None:
        encoding = MapEncoding(*tokens, min(block, tokens[0]), 1)
        large = AVERAGE_BITS / block
    elif len(shape) == 4:
        height, width = shape[2:]
        encoding = MapEncoding(height, width, min(block, height), min(block, width))
        large = AVERAGE_BITS / block**2
    else:
        return None, bits
    return (encoding if encoding.overhead_bits - large <= 1 else None), bits


def _tokens(node: Node, shape: list[int], batch_size: int) -> tuple[int, int] | None:
    """Number and size of the tokens of a sequence; None when it is not one."""
    if len(shape) == 2 and shape[0] > batch_size and shape[0] % batch_size == 0:
        return shape[0] // batch_size, shape[1]
    if len(shape) == 3:
        return shape[1], shape[2]
    if len(shape) == 4 and _is_attention(node):
        if node.target is daf.batch_gemm.default and node.args[6]:  # heads beside each other: (N, T, heads, size)
            return shape[1], math.prod(shape[2:])
        return shape[2], shape[3]
    return None


def _is_attention(node: Node) -> bool:
    """(N, heads, T, size), and no picture."""
    kinds = {daf.batch_gemm.default, daf.softmax.default}
    return node.target in kinds or any(
        _is_attention(user) if is_view(user) else user.target in kinds for user in node.users
    )
