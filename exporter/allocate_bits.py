"""How many bits each stored activation gets: the least gradient error that fits into the bytes there are.

With b bits, activation i adds sensitivity_i / (2^b - 1)^2 to the variance of the gradient. All start with the most
bits; the plane that costs the least per freed byte is dropped until the rest fits. The store does the same on the
device when the budget asks for it (runtime_ops/store).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from daf.exporter.schemes import MAX_BITS, planes_bytes


def allocate_bits(sizes: Sequence[int], sensitivities: Sequence[float], limit_bytes: int) -> list[int]:
    """`sizes` in elements. Every activation keeps one bit, whatever the limit."""
    bits = [MAX_BITS] * len(sizes)
    total = sum(planes_bytes(n, MAX_BITS) for n in sizes)
    queue = [(_cost(n, c, MAX_BITS), i) for i, (n, c) in enumerate(zip(sizes, sensitivities, strict=True))]
    heapq.heapify(queue)
    while total > limit_bytes and queue:
        _, i = heapq.heappop(queue)
        total -= _freed(sizes[i], bits[i])
        bits[i] -= 1
        if bits[i] > 1:
            heapq.heappush(queue, (_cost(sizes[i], sensitivities[i], bits[i]), i))
    return bits


def _freed(n: int, bits: int) -> int:
    return planes_bytes(n, bits) - planes_bytes(n, bits - 1)


def _cost(n: int, sensitivity: float, bits: int) -> float:
    """Of dropping the lowest of `bits` planes, per byte."""
    return sensitivity * (_error(bits - 1) - _error(bits)) / _freed(n, bits)


def _error(bits: int) -> float:
    return 1.0 / float(2**bits - 1) ** 2
