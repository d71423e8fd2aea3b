"""The probability of meeting limits: its scale, its value and its slopes."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from trainshed.tuning.feasibility import LimitScore, scale_limit, total_violation
from tuning.belief_scores import assert_slopes

EXCESSES = st.lists(
    st.floats(allow_nan=False, allow_infinity=False) | st.just(math.nan), min_size=1, max_size=30
)


@example([1e300, -1e300])
@example([5e-324, -5e-324])
@example([0.0, 253.0, 1e-306])
@given(EXCESSES)
def test_scaled_excesses_keep_their_side_of_the_limit(excesses):
    scaled = scale_limit(np.array(excesses))
    assert np.isfinite(scaled.values).all()
    assert math.isfinite(scaled.border)
    for value, excess in zip(scaled.values, excesses, strict=True):
        if excess > 0:
            assert value >= scaled.border
        elif excess <= 0:
            assert value <= scaled.border


@example([0.0, 4e292, 1e-16])
@given(EXCESSES)
def test_a_trial_without_a_value_is_as_bad_as_the_worst(excesses):
    scaled = scale_limit(np.array([*excesses, math.nan]))
    assert scaled.values[-1] == max(scaled.values)


def test_the_probability_is_that_of_the_normal_distribution():
    mean, deviation = np.array([[0.2, 0.4], [-0.1, 0.5]]), np.array([[0.3, 0.1], [1.0, 0.2]])
    borders = np.array([0.3, 0.6])
    scores = LimitScore(borders=borders).score(mean, deviation)
    both = norm.cdf((borders[:, None] - mean) / deviation).prod(axis=0)
    assert np.exp(scores) == pytest.approx(both)


@pytest.mark.parametrize("required", [-math.inf, -0.5, -0.01])
@pytest.mark.parametrize("border", [0.3, -40.0, 40.0])
def test_slopes_are_those_of_the_score(border, required):
    score = LimitScore(borders=np.array([border, 0.1]), required=required)
    assert_slopes(score, np.array([0.2, -0.3]), np.array([0.6, 0.9]))


def test_violations_of_several_limits_add_up_and_safe_trials_have_none():
    excesses = np.array([[-1.0, -100.0], [1.0, -100.0], [1.0, 100.0], [0.0, math.nan]])
    violations = total_violation(excesses)
    assert violations[0] == 0
    assert 0 < violations[1] < violations[2]
    assert violations[3] > 0
