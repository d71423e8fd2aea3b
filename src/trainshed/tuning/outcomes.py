"""Objective values, standardized, and the width of the trust region that they lead to."""

from typing import Final

import numpy as np

from trainshed.tuning.cube import Array

#: The region's width: at first, at most, and below which it begins anew.
_WIDTH_FIRST: Final = 0.8
_WIDTH_MAX: Final = 1.6
_WIDTH_MIN: Final = 2.0**-7

#: So many better values in a row widen the region.
_SUCCESSES: Final = 3

#: A smaller part of the largest value is no spread: what is divided by it might overflow.
_SPREAD_MIN: Final = 1e-100

#: Steps of less than this share of the way from the median value are no progress.
_PROGRESS: Final = 1e-3


def standardized(values: Array) -> Array:
    """Values of mean 0 and deviation 1, in the same order; failed ones as bad as the worst.

    What is worse than the median is compressed: how bad a bad trial is says little about where
    the good ones are, and a divergent one must not drown the others.
    """
    found = values[np.isfinite(values)]
    if not len(found):
        return np.zeros(len(values))
    largest = float(np.abs(found).max()) or 1.0  # squares of what is left cannot overflow
    found = found / largest
    filled = np.where(np.isfinite(values), values / largest, found.max())
    middle = float(np.median(found))
    spreads = (middle - float(np.percentile(found, 10)), float(np.std(found)))
    unit = next((spread for spread in spreads if spread > _SPREAD_MIN), 1.0)
    above = np.maximum(filled - middle, 0.0) / unit
    even = np.where(filled > middle, middle + unit * np.log1p(above), filled)
    even = (even - even.mean()) / (even.std() or 1.0)
    return np.asarray(even)


def trust_region_width(values: Array, start: int, axes: int) -> float:
    """How wide the region around the best point is, after all that was found so far.

    After Eriksson et al., "Scalable Global Optimization via Local Bayesian Optimization" (NeurIPS
    2019): luck doubles it, patience halves it.  It follows from the values alone, so that nothing
    is to be remembered.
    """
    size, successes, failures = _WIDTH_FIRST, 0, 0
    best = float(np.min(values[:start], initial=np.inf, where=np.isfinite(values[:start])))
    middle = float(np.median(values[np.isfinite(values)]))
    for value in values[start:]:
        if value < best - _PROGRESS * (middle - best):
            best, successes, failures = float(value), successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if successes == _SUCCESSES:
            size, successes = min(_WIDTH_MAX, 2.0 * size), 0
        if failures == max(5, axes // 2):
            size, failures = size / 2.0, 0
        if size < _WIDTH_MIN:
            size = _WIDTH_FIRST
    return size
