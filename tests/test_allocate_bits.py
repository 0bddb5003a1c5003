"""The bits of stored activations are the best that fit."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from daf.exporter.allocate_bits import allocate_bits
from daf.exporter.schemes import planes_bytes


def error(sensitivities: list[float], bits: tuple[int, ...] | list[int]) -> float:
    return sum(c / (2**b - 1) ** 2 for c, b in zip(sensitivities, bits, strict=True))


def size(sizes: list[int], bits: tuple[int, ...] | list[int]) -> int:
    return sum(planes_bytes(n, b) for n, b in zip(sizes, bits, strict=True))


def test_what_matters_more_gets_more_bits() -> None:
    sizes = [256 * 100] * 3
    bits = allocate_bits(sizes, [100.0, 1.0, 10.0], limit_bytes=size(sizes, [2, 2, 2]))
    assert bits[0] > bits[2] > bits[1] >= 1


def test_equal_elements_get_equal_bits() -> None:
    sizes = [256, 2560, 25600]
    assert allocate_bits(sizes, [float(n) for n in sizes], size(sizes, [3, 3, 3])) == [3, 3, 3]


def test_room_for_all_is_used_and_one_bit_is_the_floor() -> None:
    assert allocate_bits([256, 512], [1.0, 1.0], 10**9) == [8, 8]
    assert allocate_bits([256, 512], [1.0, 1.0], 0) == [1, 1]
    assert allocate_bits([], [], 0) == []


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.floats(0.01, 100)), min_size=1, max_size=3),
    st.floats(0.0, 1.0),
)
def test_fits_and_no_better_choice_of_at_most_its_size_exists(entries: list[tuple[int, float]], part: float) -> None:
    sizes, sensitivities = [256 * n for n, _ in entries], [c for _, c in entries]
    least, most = size(sizes, [1] * len(sizes)), size(sizes, [8] * len(sizes))
    limit = int(least + part * (most - least))
    bits = allocate_bits(sizes, sensitivities, limit)
    assert size(sizes, bits) <= limit
    # Greedy is exact for convex costs at the sizes it passes through: nothing of its own size is better.
    own_size = size(sizes, bits)
    best = min(
        error(sensitivities, other)
        for other in itertools.product(range(1, 9), repeat=len(sizes))
        if size(sizes, other) <= own_size
    )
    assert error(sensitivities, bits) <= best * (1 + 1e-9)
