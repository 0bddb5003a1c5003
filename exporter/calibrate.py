"""`daf-export --calibrate`: how much each stored activation matters, measured on the program itself.

As in GACT: with all others at 8 bits, one activation is stored with 1 bit, under two seeds. How far the gradients then
lie from each other and from those at 8 bits is its sensitivity. Other than there, the distance is relative to the
gradient of each parameter: what a layer learns does not depend on the scale of its gradients where a normalisation
follows it or the optimizer divides by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from daf import native
from daf.errors import Exit, UserError
from daf.exporter.check import LARGE_LR, program_gradients
from daf.exporter.schemes import MAX_BITS, STORE_SCHEMA
from daf.files import atomic_write

if TYPE_CHECKING:
    from daf.exporter.pipeline import Export

SMALLEST = 1e-30
# A gradient whose square is so small beside the largest one's is 0 but for rounding, as that of a bias before a batch
# normalisation: relative to itself, its noise would outweigh all others.
NEARLY_ZERO = 1e-6


def calibrate(export: Export, n_batches: int, on_activation: Callable[[int, int], None]) -> dict[str, float]:
    """Activation -> sensitivity, the mean over batches. `on_activation(done, total)` is called along the way."""
    assert export.written is not None
    entries = export.store.entries
    encodings = "".join(f" {entry.map.numbers()}" for entry in entries if entry.map is not None)
    cache = _cache_path(export.written.manifest["program"]["sha256"], n_batches, encodings)
    names = [entry.activation.name for entry in entries]
    if (known := _read(cache, names)) is not None:
        return known
    measure, batches = _Measure(export), _batches(export, n_batches)
    total = dict.fromkeys(names, 0.0)
    for number in range(n_batches):
        batch = batches[number]
        bits = [MAX_BITS] * len(entries)
        exact = measure.gradients(batch, bits, seed=0)
        for i, name in enumerate(names):
            on_activation(number * len(names) + i, n_batches * len(names))
            bits[i] = 1
            a, b = (measure.gradients(batch, bits, seed) for seed in (1, 2))
            bits[i] = MAX_BITS
            apart = max(_distance(a, b, exact), 2 * max(_distance(a, exact, exact), _distance(b, exact, exact)))
            total[name] += apart / n_batches
    if not all(math.isfinite(sensitivity) for sensitivity in total.values()):
        raise UserError(
            "cannot calibrate: the gradients of the example batch are not finite; check batch() and loss()", Exit.MODEL
        )
    with suppress(OSError, UserError):  # a cache that cannot be written costs time, no more
        cache.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(cache) as file:
            file.write(json.dumps(total).encode())
    return total


def _batches(export: Export, n: int) -> list[tuple[Tensor, ...]]:
    """Of the model file's data where it has them, otherwise its example batches."""
    file, size = export.options.file, export.batch[0].shape[0]
    try:
        data = list(file.dataset("train").values())
    except UserError:
        data = []
    if not data or len(data[0]) < size:
        return [export.batch] + [file.make_batch() for _ in range(n - 1)]
    starts = [i * size % (len(data[0]) - size + 1) for i in range(n)]
    return [tuple(tensor[start : start + size].contiguous() for tensor in data) for start in starts]


class _Measure:
    """Runs single steps from the same state, without a budget."""

    def __init__(self, export: Export) -> None:
        assert export.written is not None
        self._export = export
        self._session = native.Session(str(export.written.program), str(export.written.manifest_path))
        self._state = self._session.state()

    def gradients(self, batch: tuple[Tensor, ...], bits: list[int], seed: int) -> dict[str, Tensor]:
        session = self._session
        session.set_bits(bits)
        session.set_rounding_seed(seed)
        session.set_step_count(0)
        session.step([tensor.numpy() for tensor in batch], LARGE_LR)
        found = program_gradients(self._export, session)
        session.set_state(self._state)
        return found


def _distance(a: dict[str, Tensor], b: dict[str, Tensor], unit: dict[str, Tensor]) -> float:
    """The sum over the parameters of the relative distance of their gradients, squared."""
    sizes = {name: _square_norm(gradient) for name, gradient in unit.items()}
    floor = max(SMALLEST, NEARLY_ZERO * max(sizes.values()))
    return sum(_square_norm(a[name] - b[name]) / max(sizes[name], floor) for name in a)


def _square_norm(x: Tensor) -> float:
    return float(x.double().square().sum())


def _cache_path(program_sha256: str, n_batches: int, encodings: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    measured = f"{program_sha256} {n_batches} {STORE_SCHEMA} {NEARLY_ZERO}{encodings}"
    key = hashlib.sha256(measured.encode()).hexdigest()[:32]
    return root / "daf" / f"sensitivity-{key}.json"


def _read(cache: Path, names: list[str]) -> dict[str, float] | None:
    """None when it is not there or not whole: it is then made anew."""
    try:
        found = json.loads(cache.read_text())
        return {name: float(found[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None
