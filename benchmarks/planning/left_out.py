"""Fits the parameters without whole systems or whole models, to predict these from the others.

No fit reads a row of what it leaves out.  Each fit leaves out a group of systems (or models), so
that few fits suffice; it then has fewer rows than a fit that leaves out one system only.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.planning.fit import PASSES, fit
from benchmarks.planning.questions import questions
from benchmarks.planning.rows import Curve
from trainshed.planning.scaling.parameters import Parameters

GROUPS = 8


def group_names(
    curves: Sequence[Curve], key: Callable[[Curve], str], count: int = GROUPS
) -> list[set[str]]:
    """Divide the names into groups with about equally many points.

    ``key`` returns the name of a curve.  The values of the points have no influence.
    """
    sizes: dict[str, int] = defaultdict(int)
    for curve in curves:
        sizes[key(curve)] += len(curve.points)
    groups: list[set[str]] = [set() for _ in range(count)]
    filled = [0] * count
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = filled.index(min(filled))
        groups[least].add(name)
        filled[least] += sizes[name]
    return groups


def run_in_processes(
    fit_without_group: Callable[[set[str]], Parameters], groups: Sequence[set[str]]
) -> Iterator[Parameters]:
    """Run one fit on each processor at a time, and print the progress."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, parameters in enumerate(pool.map(fit_without_group, groups), 1):
            print(f"fit {number} of {len(groups)}", file=sys.stderr, flush=True)
            yield parameters


def fit_without_each(
    curves: Sequence[Curve],
    key: Callable[[Curve], str],
    count: int = GROUPS,
) -> dict[str, Parameters]:
    """Return for each name the parameters of a fit without any of its rows."""
    groups = group_names(curves, key, count)
    fits = run_in_processes(partial(fit_without, curves, key), groups)
    return {
        name: parameters for group, parameters in zip(groups, fits, strict=True) for name in group
    }


def fit_without(
    curves: Sequence[Curve],
    key: Callable[[Curve], str],
    names: set[str],
    passes: Sequence[float] = PASSES,
) -> Parameters:
    """Fit the parameters to the curves whose name is not in ``names``."""
    rest = [curve for curve in curves if key(curve) not in names]
    return fit(rest, questions(rest), passes)
