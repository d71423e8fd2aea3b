"""Checks of scores that are computed from beliefs."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime


def assert_slopes(score, mean, deviation):
    """Check the value and the derivatives of a score, for one belief about each metric."""
    at = np.concatenate([mean, deviation])
    count = len(mean)

    def value_at(row):
        return score.score(row[:count, None], row[count:, None])[0]

    value, by_mean, by_deviation = score.slopes(mean[:, None], deviation[:, None])
    assert value[0] == pytest.approx(value_at(at))
    slopes = np.concatenate([by_mean[:, 0], by_deviation[:, 0]])
    assert slopes == pytest.approx(approx_fprime(at, value_at, 1e-7), rel=1e-3, abs=1e-3)
