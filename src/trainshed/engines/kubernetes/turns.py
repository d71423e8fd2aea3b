"""Spreads the regular checks of many attempts over time, so that their cost has a limit."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Takes turns through a changing collection, at most some values at a time."""

    def __init__(self, values_max: int, *, cycle_s: float = 0.0) -> None:
        """``values_max``: limit of one turn.  ``cycle_s``: least seconds between two cycles."""
        self._values_max = values_max
        self._cycle_s = cycle_s
        self._began_s = float("-inf")
        self._left: deque[T] = deque()

    def take(self, list_values: Callable[[], Iterable[T]], now_s: float) -> list[T]:
        """Return the values whose turn it is; a new cycle begins with the present values."""
        if not self._left and now_s - self._began_s >= self._cycle_s:
            self._began_s = now_s
            self._left.extend(list_values())
        return [self._left.popleft() for _ in range(min(self._values_max, len(self._left)))]
