"""The processes of several metrics together: what each of them alone believes."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from trainshed.tuning.feasibility import LimitScore
from trainshed.tuning.improvement import ImprovementScore
from trainshed.tuning.joint import join
from trainshed.tuning.kernel import Hyperparameters, posterior
from trainshed.tuning.metrics_search import MetricsScore

COUNT = 3


def beliefs(points=6):
    """One process for each metric, after a few random results, with parameters of its own."""
    rng = np.random.default_rng(1)
    groups, x = np.array([0, 1, 1]), rng.random((points, 3))
    return [
        posterior(
            Hyperparameters(lengths=rng.uniform(0.3, 2.0, 2), scale=scale, noise=0.01),
            groups,
            x,
            rng.standard_normal(points),
        )
        for scale in (0.5, 1.0, 2.0)
    ]


@pytest.mark.parametrize("rows", [0, 1, 7, 900])
def test_beliefs_are_those_of_each_process(rows):
    parts, z = beliefs(40), np.random.default_rng(2).random((rows, 3))
    means, deviations = join(parts).at(z)
    for belief, mean, deviation in zip(parts, means, deviations, strict=True):
        own_mean, own_deviation = belief.at(z)
        assert mean == pytest.approx(own_mean)
        assert deviation == pytest.approx(own_deviation)


def test_the_gradient_is_that_of_the_score_by_the_features():
    limits = LimitScore(borders=np.array([0.3, -0.2]), required=math.log(0.9))
    score = MetricsScore(
        posterior=join(beliefs()), limits=limits, improvement=ImprovementScore(best=-0.5)
    )
    for row in np.random.default_rng(3).random((4, 3)):
        value, slope = score.slopes(row[None])
        assert value == pytest.approx(score.score(row[None]))
        estimate = approx_fprime(row, lambda at: score.score(at[None])[0], 1e-7)
        assert slope[0] == pytest.approx(estimate, rel=1e-3, abs=1e-3)


def test_at_a_point_with_a_result_the_gradient_is_finite():
    parts = beliefs()
    score = MetricsScore(posterior=join(parts), limits=LimitScore(borders=np.zeros(COUNT)))
    value, slope = score.slopes(parts[0].x[:2])
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
