"""Names implausible steps of a measured curve, and what a lost efficiency means for more counts."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from trainshed.planning.scaling.tables import Point

#: A step that gains this much more than in proportion is not a rounding error.
_NOISE: Final = 1.01


def remarks_on(points: Sequence[Point]) -> Iterator[str]:
    """Yield a sentence for each step that no model explains, and one for a fixed share."""
    for a, b in pairwise(points):
        gain, ideal = b.throughput / a.throughput, b.accelerators / a.accelerators
        step = f"from {a.accelerators} to {b.accelerators} accelerators throughput"
        if gain > ideal * _NOISE:
            yield f"{step} grows {gain:.2f} times, more than the {ideal:.2g} times of the count"
        elif gain < 1:
            yield f"{step} falls to {gain:.2f} of what it was"
    share = _fixed_share(points)
    if share is not None:
        first, last = points[0], points[-1]
        base = "one" if first.accelerators == 1 else f"{first.accelerators:,}"
        yield (
            f"{last.throughput / first.throughput:.3g} times {base} on {last.accelerators:,}"
            f" accelerators is a fixed share of {100 * share:.3g} %: no count is more"
            f" than {1 / share:.0f} times as fast as {base}"
        )


def _fixed_share(points: Sequence[Point]) -> float | None:
    """Return the share s of Amdahl's law, of which 1 / (s + (1 - s) / n) is the speed-up.

    None if the largest count lost less than half of the efficiency, or is slower than the smallest.
    """
    n = points[-1].accelerators / points[0].accelerators
    speedup = points[-1].throughput / points[0].throughput
    if not 1 <= speedup < n / 2:
        return None
    return (n / speedup - 1) / (n - 1)
