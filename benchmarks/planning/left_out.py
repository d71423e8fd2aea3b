"""Fits with whole systems, or whole models, left out: exact, for they never see those rows.

Systems (and models) are left out in groups, so that a few fits serve all of them: what is
predicted of a system comes from fits of fewer rows than if it alone had been left out.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.planning.fit import PASSES, fit
from benchmarks.planning.questions import questions
from benchmarks.planning.rows import Curve
from trainshed.planning.scaling.parameters import Parameters

GROUPS = 8


def by_system(curve: Curve) -> str:
    """The system of a curve."""
    return curve.system


def by_model(curve: Curve) -> str:
    """The model of a curve."""
    return curve.training.model


def groups_of(
    curves: Sequence[Curve], key: Callable[[Curve], str], count: int = GROUPS
) -> list[set[str]]:
    """Names in groups of about as many points each, whatever the points say."""
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


#: Calls a function with each of some groups.
FitRunner = Callable[[Callable[[set[str]], Parameters], Sequence[set[str]]], Iterable[Parameters]]


def on_all_processors(
    fitted: Callable[[set[str]], Parameters], groups: Sequence[set[str]]
) -> Iterator[Parameters]:
    """One fit a processor; says how far they are."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, parameters in enumerate(pool.map(fitted, groups), 1):
            print(f"fit {number} of {len(groups)}", file=sys.stderr, flush=True)
            yield parameters


def left_out(
    curves: Sequence[Curve],
    key: Callable[[Curve], str],
    count: int = GROUPS,
    run_fits: FitRunner = on_all_processors,
) -> dict[str, Parameters]:
    """For each name the parameters of a fit without any of its rows."""
    groups = groups_of(curves, key, count)
    fits = run_fits(partial(without, curves, key), groups)
    return {
        name: parameters for group, parameters in zip(groups, fits, strict=True) for name in group
    }


def without(
    curves: Sequence[Curve],
    key: Callable[[Curve], str],
    names: set[str],
    passes: Sequence[float] = PASSES,
) -> Parameters:
    """The fit of all other rows."""
    rest = [curve for curve in curves if key(curve) not in names]
    return fit(rest, questions(rest), passes)
