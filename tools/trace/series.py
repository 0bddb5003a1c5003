"""A few evenly spaced points of a sequence of any length."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Series(Generic[T]):
    """Keeps every point until there are `max_points`, then every second, then every fourth, and always the last."""

    def __init__(self, max_points: int = 2048) -> None:
        self._max_points = max_points
        self._kept: list[T] = []
        self._stride = 1
        self._n = 0
        self._last: T | None = None

    def add(self, point: T) -> None:
        if self._n % self._stride == 0:
            if len(self._kept) == self._max_points:
                del self._kept[1::2]
                self._stride *= 2
            if self._n % self._stride == 0:
                self._kept.append(point)
        self._last = point
        self._n += 1

    def __len__(self) -> int:
        """Points added, not those kept."""
        return self._n

    def points(self) -> list[T]:
        last_is_kept = self._last is None or (self._n - 1) % self._stride == 0
        return self._kept if last_is_kept or self._last is None else [*self._kept, self._last]
