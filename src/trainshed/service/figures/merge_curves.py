"""Joins the curves of several files into the series of an answer.

A trainer that continues writes a new file, whose steps follow those of the file before: both are
one series.  Replicas that write into one folder at once have the same steps: a series each, because
a line through both would jump back and forth.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainshed.service.figures.answers import ScalarCurve, ScalarPoint, ScalarSource
from trainshed.service.figures.growing_curve import GrowingCurve


class NamedCurve(NamedTuple):
    """A curve with what it is called."""

    name: str
    run: str
    attempt: int
    curve: GrowingCurve


def merge_curves(
    curves: Iterable[NamedCurve], source: ScalarSource, points_max: int
) -> Iterator[ScalarCurve]:
    """Yield series by name, run and attempt; ``curves`` are in the order of their beginnings."""
    groups: dict[tuple[str, str, int], list[GrowingCurve]] = defaultdict(list)
    for name, run, attempt, curve in curves:
        groups[name, run, attempt].append(curve)
    for (name, run, attempt), members in sorted(groups.items(), key=lambda pair: pair[0]):
        for number, points in enumerate(_join(members, points_max), start=1):
            label = run if number == 1 else f"{run} ({number})"
            yield ScalarCurve(name=name, source=source, run=label, attempt=attempt, points=points)


def _join(members: Iterable[GrowingCurve], points_max: int) -> Iterator[list[ScalarPoint]]:
    """Yield the points of each series: a curve continues the first one that ends before it."""
    series: list[list[ScalarPoint]] = []
    for curve in members:
        points = curve.points(points_max)
        before = next((one for one in series if _follows(one[-1], points[0])), None)
        if before is None:
            series.append(points)
        else:
            before += points
    return (_thin_out(points, points_max) for points in series)


def _follows(last: ScalarPoint, first: ScalarPoint) -> bool:
    return last[0] is not None and first[0] is not None and last[0] < first[0]


def _thin_out(points: list[ScalarPoint], points_max: int) -> list[ScalarPoint]:
    if len(points) <= points_max:
        return points
    return GrowingCurve.of_points(points, points_max).points(points_max)
