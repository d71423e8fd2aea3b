"""The questions of the goals: the given points of a curve, and the points to predict.

G1: an inner count; G2: the largest; G3: all after one full host and the first count on several;
G4: all after the two smallest; G5: several hosts after one accelerator and one host; G6 and G7:
all after the smallest (of a model, or on a system, of which nothing is in the fit).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.planning.rows import Curve
from trainshed.planning.scaling.reach import Extrapolation, reach_of

#: Absolute error of throughput in per cent: median, 90th percentile (docs/sources/planner.md 11).
GOALS = {
    "G1": (1.9, 8.0),
    "G2": (2.0, 13.0),
    "G3": (1.9, 8.0),
    "G4": (2.5, 25.0),
    "G5": (4.4, 33.0),
    "G6": (5.7, 31.0),
    "G7": (4.6, 34.0),
    "G16": (4.7, 40.0),
}
_SEVERAL = 4


@dataclass(frozen=True, kw_only=True)
class Question:
    """The given points of a curve, and the points to predict."""

    goal: str
    curve: int
    observed: tuple[int, ...]
    targets: tuple[int, ...]

    def reach(self, curves: Sequence[Curve], point: int) -> Extrapolation:
        """The kind of question that a point is, for its interval."""
        curve = curves[self.curve]
        counts = [(one.accelerators, one.hosts) for one in curve.points]
        measured = {counts[i] for i in self.observed}
        return reach_of(curve.training, curve.host, measured, counts[point])


def questions(curves: Sequence[Curve]) -> list[Question]:
    """Those of all goals but G6, which has G7's with another fit."""
    return [
        Question(goal=goal, curve=i, observed=observed, targets=targets)
        for i, curve in enumerate(curves)
        for goal, observed, targets in _of(curve)
    ]


def _of(curve: Curve) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    size = len(curve.points)
    every = tuple(range(size))
    if size >= _SEVERAL:
        for i in every[1:-1]:
            yield "G1", every[:i] + every[i + 1 :], (i,)
        yield "G2", every[:-1], every[-1:]
    if size > 2:
        yield "G4", every[:2], every[2:]
    yield from _of_hosts(curve)
    yield "G7", every[:1], every[1:]


def _of_hosts(curve: Curve) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    points = list(enumerate(curve.points))
    one = [i for i, point in points if point.accelerators == 1]
    inside = [i for i, point in points if point.hosts == 1 and point.accelerators > 1]
    several = [i for i, point in points if point.hosts > 1]
    if one and inside and several:
        yield "G5", (one[0], inside[-1]), tuple(several)
    full = [i for i in inside if curve.points[i].accelerators == curve.host.per_host]
    if full and len(several) > 1:
        observed = tuple(sorted({0, full[0], several[0]}))
        yield "G3", observed, tuple(several[1:])
