"""Draws a curve in a line of text."""

from collections.abc import Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"
#: The number of characters of a line.
WIDTH: Final = 24


def draw_sparkline(points: Sequence[tuple[float, float]], width: int = WIDTH) -> str:
    """Draw (position, value) pairs in at most ``width`` characters.

    The lowest bar is the least value, the highest the greatest.  The mean of the values at a
    character counts; a character without values is a space.
    """
    means = _average(points, min(width, len(points)))
    values = [mean for mean in means if mean is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(" " if mean is None else _bar(mean, low, high) for mean in means).rstrip()


def _average(points: Sequence[tuple[float, float]], width: int) -> list[float | None]:
    """Return the mean value at each of ``width`` equal parts of the positions."""
    if not points:
        return []
    begin, end = points[0][0], points[-1][0]
    parts: list[list[float]] = [[] for _ in range(width)]
    for position, value in points:
        share = (position - begin) / (end - begin) if end > begin else 0.0
        parts[min(width - 1, max(0, int(share * width)))].append(value)
    return [sum(value / len(part) for value in part) if part else None for part in parts]


def _bar(value: float, low: float, high: float) -> str:
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0
    return _BARS[min(len(_BARS) - 1, int(share * len(_BARS)))]
