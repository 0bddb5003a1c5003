"""The bits of stored activations are the best that fit."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from daf import native

PAGE = 16384 * 8  # elements whose plane is one page


def error(sensitivities: list[float], bits: tuple[int, ...] | list[int]) -> float:
    return sum(c / (2**b - 1) ** 2 for c, b in zip(sensitivities, bits, strict=True))


def size(sizes: list[int], bits: tuple[int, ...] | list[int]) -> int:
    return native.store_bytes(sizes, list(bits))


def test_what_matters_more_gets_more_bits() -> None:
    sizes = [25 * PAGE] * 3
    bits = native.fit_bits(sizes, [100.0, 1.0, 10.0], size(sizes, [2, 2, 2]))
    assert bits[0] > bits[2] > bits[1] >= 1


def test_equal_elements_get_equal_bits() -> None:
    sizes = [PAGE, 10 * PAGE, 100 * PAGE]
    assert native.fit_bits(sizes, [float(n) for n in sizes], size(sizes, [3, 3, 3])) == [3, 3, 3]


def test_room_for_all_is_used_and_one_bit_is_the_floor() -> None:
    assert native.fit_bits([256, 512], [1.0, 1.0], 10**9) == [8, 8]
    assert native.fit_bits([256, 512], [1.0, 1.0], 0) == [1, 1]
    assert native.fit_bits([], [], 0) == []


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.floats(0.01, 100)), min_size=1, max_size=3),
    st.floats(0.0, 1.0),
)
def test_fits_and_no_better_choice_of_at_most_its_size_exists(entries: list[tuple[int, float]], part: float) -> None:
    sizes, sensitivities = [PAGE * n for n, _ in entries], [c for _, c in entries]
    least, most = size(sizes, [1] * len(sizes)), size(sizes, [8] * len(sizes))
    limit = int(least + part * (most - least))
    bits = native.fit_bits(sizes, sensitivities, limit)
    assert size(sizes, bits) <= limit
    # Greedy is exact for convex costs at the sizes it passes through: nothing of its own size is better.
    own_size = size(sizes, bits)
    best = min(
        error(sensitivities, other)
        for other in itertools.product(range(1, 9), repeat=len(sizes))
        if size(sizes, other) <= own_size
    )
    assert error(sensitivities, bits) <= best * (1 + 1e-9)
