"""Finds the step at which a training becomes steady.

Compilers and libraries choose their kernels in early steps, which are therefore slower.

The rule is MSER (marginal standard error): the warm-up ends where the mean of the later steps is
most certain.  The rule works for any number of levels and has no constant.
"""

import math
from collections.abc import Sequence
from statistics import median

#: A step that took longer than this many times the median counts as this many.
_ACCIDENT = 3.0


def warm_up(step_s: Sequence[float]) -> int:
    """Return how many of the first steps are warm-up, at most half of all steps."""
    logs = _logs(step_s)
    best, least = 0, math.inf
    total = squares = 0.0
    for count, value in enumerate(reversed(logs), start=1):
        total += value
        squares += value * value
        start = len(logs) - count
        error = max(0.0, squares - total * total / count) / (count * count)
        if start <= len(logs) // 2 and error <= least:
            best, least = start, error
    return best


def _logs(step_s: Sequence[float]) -> list[float]:
    later = [one for one in step_s[len(step_s) // 2 :] if one > 0]
    if not later:
        return [0.0] * len(step_s)
    usual = median(later)
    return [math.log(min(max(one, usual / _ACCIDENT), usual * _ACCIDENT)) for one in step_s]
