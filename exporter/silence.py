"""Libraries log on import what they could not load of their optional parts (CUDA kernels and the like)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silenced(level: int = logging.WARNING) -> Iterator[None]:
    """Nothing of `level` or below is logged."""
    disabled = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(disabled)
