"""The training session and its kernels, in C++ (python/binding.cpp). Import it as `from daf import native`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class DafError(RuntimeError):
    """The message names the action, the object and the next step."""

    exit_code: int  # a value of daf.errors.Exit

class Session:
    """An exported program, its state and memory. Safe to share between threads; calls wait for each other."""

    def __init__(
        self,
        program: str,
        manifest: str,
        *,
        seed: int = 0,
        budget: int | None = None,
        importance: str | None = None,
        reduce: str = "auto",
    ) -> None:
        """`budget`: bytes that arena, pool and workspace never exceed. `importance`: by what stored activations share
        their bits: `uniform`, `calibrated` or `gradient`. Both are the manifest's when not given.

        `reduce`: auto, cpu, vulkan or opencl; what finds the ranges of activations. The results are the same.
        """
    def step(self, inputs: Sequence[npt.NDArray[Any]], lr: float | None = None) -> float:
        """One training step on arrays in the manifest's order, read in place; returns the loss, finite or not.

        Without `lr`, the manifest's.
        """
    def profile(self) -> list[tuple[str, float]]:
        """Operator and microseconds of each instruction of the last step, in their order."""
    def outputs(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of the outputs of the last step (`loss`, `grad:NAME`); an error once predict() has run."""
    def predict(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]: ...
    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of parameters, buffers and optimizer state (`<parameter>.<slot>`)."""
    def set_state(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Tensors that are not given keep their values."""
    def save(self, path: str) -> None: ...
    def restore(self, path: str) -> None: ...
    def memory(self) -> dict[str, int]:
        """Bytes held: weights, constants, optimizer, arena (of it gradients), pool, workspace; activations are those
        kept for backward, in arena and pool."""
    def trim(self, budget: int) -> int:
        """Sets the budget at once, from any thread; returns the one in force, which is at least the floor."""
    def store(self) -> dict[str, Any]:
        """Statistics of the activation store; empty when the program has none."""
    def reducer(self) -> dict[str, Any]:
        """mode, uses_gpu, probed, failure, calls (by variant), copied_bytes; empty when nothing is stored."""
    def set_bits(self, bits: Sequence[int]) -> None:
        """Restarts the store with so many bits for each of its entries, and without a budget."""
    def set_rounding_seed(self, seed: int) -> None: ...
    def set_step_count(self, step_count: int) -> None: ...
    @property
    def step_count(self) -> int: ...
    @property
    def seed(self) -> int: ...

class OperatorCall:
    """One kernel, called outside of any program; for benchmarks."""

    def __init__(self, name: str, arguments: Sequence[Any]) -> None:
        """`name` as in operator_names(); arguments as in its schema, then its out tensors. Arrays are used in place."""
    def run(self) -> None: ...

def run(request_json: str, on_line: Callable[[str], None], should_stop: Callable[[], bool]) -> str:
    """Runs a whole request and returns the footer's line; `on_line` gets every line of the trace.

    An error is written to the footer and then raised. An exception of a callback stops the run after the current step,
    which saves, and is then raised.
    """

def epoch_order(seed: int, epoch: int, n_samples: int) -> npt.NDArray[np.int64]: ...
def dropout(x: npt.NDArray[np.float32], p: float, seed: int, step: int, layer: int) -> npt.NDArray[np.float32]: ...

Map = Sequence[int]  # height, width, height and width of a block; none: the tensor has no maps

def store_bytes(n_elements: Sequence[int], bits: Sequence[int], maps: Sequence[Map] = ()) -> int:
    """What the store takes for tensors of these sizes and bits, in whole pages."""

def fit_bits(
    n_elements: Sequence[int], sensitivities: Sequence[float], limit_bytes: int, maps: Sequence[Map] = ()
) -> list[int]:
    """The bits of stored tensors with which they fit, at the least error of the gradient.

    With b bits, tensor i adds sensitivities[i] / (2^b - 1)^2 to it. Every tensor keeps one bit, whatever the limit.
    """

def store_and_read(
    x: npt.NDArray[np.float32], bits: int, read_bits: int, map: Map, seed: int, step: int
) -> npt.NDArray[np.float32]:
    """x as an activation store of its own gives it back, stored with `bits` planes of which `read_bits` are left."""

def current_isa() -> str:
    """The instruction set whose kernels run: what the processor has, or DAF_ISA."""

def max_workspace_bytes() -> int:
    """The most scratch memory that a kernel takes."""

def set_threads(n: int) -> None:
    """How many threads the kernels run on from now on."""

def operator_names() -> list[str]:
    """All kernels registered in this process."""

# ---- for `daf doctor`, `daf tune` and `daf bench reduce` ----

def reduce_devices() -> list[dict[str, Any]]:
    """Every backend that was looked for: its device, and the reason if it cannot be used."""

def tuned_sizes() -> list[int]:
    """One of each size class of the selector, as far as activations go."""

def tune_reduce(path: str, sizes: Sequence[int], tries_software: bool, on_size: Callable[[int], None]) -> str:
    """Measures every variant at each size and writes the table; returns the device's key, empty if there is none."""

class BenchReduce:
    def __init__(self, backend: str, n_elements: int) -> None: ...
    @property
    def device(self) -> dict[str, Any]: ...
    @property
    def shares_memory(self) -> bool: ...
    def variants(self, op: str) -> list[str]:
        """`op`: range, ranges or decode."""
    def run(self, op: str, variant: str) -> float:
        """Seconds; of the CPU's kernels when the device has no such variant."""
    def run_read(self) -> float: ...

# ---- for `daf bench store` ----

class BenchCodec:
    def __init__(self, n_elements: int) -> None: ...
    def run(self, bits: int) -> tuple[float, float, float]:
        """Seconds of processor time to copy, pack and unpack all elements."""

def bench_pages(n_pages: int, n_operations: int) -> tuple[float, float]:
    """Nanoseconds to free a page and take another, in the pool and with malloc."""

def bench_drop_order(n_tensors: int, n_operations: int) -> float:
    """Nanoseconds to take the cheapest tensor out of the order and put it back."""

def bench_fragmentation(n_steps: int, page_bytes: int, among_others: bool) -> tuple[float, float, float]:
    """Bytes over what is needed: in pages, held by the pool, held by malloc (0: unknown)."""

def bench_store_steps(n_steps: int, page_bytes: int, grow_step_bytes: int) -> dict[str, Any]:
    """first_s, later_s, copy_s (lists but the first); used_bytes, committed_bytes, stored_bytes."""
