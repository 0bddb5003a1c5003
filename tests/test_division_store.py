"""What the activation store gives back of DIVISION's maps, against the method in plain PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from division_reference import restored, rounding_noise

from daf import native

torch.set_num_threads(1)  # tests run side by side

# Maps and blocks: pictures, with a rest that no block covers, of one block, of another form; tokens.
SHAPES = [
    (20, 56, 56, 8, 8),
    (40, 28, 28, 8, 8),
    (90, 14, 14, 8, 8),
    (300, 8, 8, 8, 8),
    (300, 7, 7, 7, 7),
    (9, 57, 33, 8, 8),
    (2, 300, 300, 64, 64),
    (3, 128, 96, 8, 1),
    (2, 197, 64, 8, 1),
]


def maps(n: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """Of different means, deviations and signs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, height, width, generator=generator)
    return x * 10 * torch.rand(n, 1, 1, generator=generator) + 5 * torch.randn(n, 1, 1, generator=generator)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_equals_the_method_in_pytorch_bit_for_bit(shape: tuple[int, int, int, int, int], bits: int) -> None:
    n, height, width, *block = shape
    x = maps(n, height, width)
    found = native.store_and_read(x.numpy(), bits, bits, shape[1:], seed=5, step=9)
    expected = restored(x, (block[0], block[1]), bits, rounding_noise(x.numel(), 5, 9))
    assert torch.equal(torch.from_numpy(found), expected)


@pytest.mark.parametrize("read_bits", [1, 2, 3])
def test_planes_that_were_dropped_read_as_the_middle(read_bits: int) -> None:
    x = maps(100, 56, 56)
    found = native.store_and_read(x.numpy(), 4, read_bits, (56, 56, 8, 8), seed=5, step=9)
    expected = restored(x, (8, 8), 4, rounding_noise(x.numel(), 5, 9), read_bits)
    assert torch.equal(torch.from_numpy(found), expected)


def test_every_value_takes_the_average_that_pytorch_upsamples_to_it() -> None:
    for block in (2, 3, 8, 64):
        for size in (*range(block, 100), *range(100, 300, 7)):
            x = torch.arange(float(size)).view(1, 1, size)  # what its average leaves of a value tells the two apart
            found = native.store_and_read(x.numpy(), 8, 8, (1, size, 1, block), seed=0, step=0)
            assert torch.equal(torch.from_numpy(found), restored(x, (1, block), 8, rounding_noise(size, 0, 0)))


def test_the_mean_over_many_roundings_is_the_value() -> None:
    x = maps(4, 28, 28)
    n_seeds = 2000
    draws = np.stack([native.store_and_read(x.numpy(), 2, 2, (28, 28, 8, 8), seed, 0) for seed in range(n_seeds)])
    step = np.ptp(draws - x.numpy(), axis=(0, 2, 3))[:, None, None] / 2  # of the codes: values come out one up or down
    mean = draws.mean(0, dtype=np.float64)
    # The deviation of one draw is at most half a step.
    assert np.abs(mean - x.numpy()).max() <= (step.max() / 2) * 5 / np.sqrt(n_seeds)
    assert np.abs((mean - x.numpy()).mean()) <= (step.max() / 2) * 4 / np.sqrt(n_seeds * x.numel())


def test_a_map_with_a_value_that_is_not_finite_is_kept_exact() -> None:
    x = maps(30, 14, 14)
    usual = native.store_and_read(x.numpy(), 2, 2, (14, 14, 8, 8), 1, 2)
    x[3, 0, 0], x[7, 13, 13], x[29, 5, 5] = torch.nan, torch.inf, -torch.inf
    found = native.store_and_read(x.numpy(), 2, 2, (14, 14, 8, 8), 1, 2)
    exact = [3, 7, 29]
    np.testing.assert_array_equal(found[exact], x.numpy()[exact])
    others = [i for i in range(30) if i not in exact]
    np.testing.assert_array_equal(found[others], usual[others])


def test_constant_zero_and_tiny_maps() -> None:
    x = torch.zeros(40, 14, 14)
    x[1] = 3.0
    x[2] = -1e-42
    x[3] = 1e-30 * torch.randn(14, 14, generator=torch.Generator().manual_seed(0))
    found = torch.from_numpy(native.store_and_read(x.numpy(), 2, 2, (14, 14, 8, 8), 1, 2))
    assert torch.equal(found[[0, 1]], x[[0, 1]])
    assert (found - x).abs().max() < 1e-29


def test_bad_maps_are_refused() -> None:
    x = maps(2, 14, 14).numpy()
    for bad in [(14, 15, 8, 8), (14, 14, 15, 8), (14, 14, 0, 8), (14, 14)]:
        with pytest.raises(ValueError, match="map"):
            native.store_and_read(x, 2, 2, bad, 1, 2)
