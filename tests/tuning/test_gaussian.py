import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from trainshed.model.study import Noise
from trainshed.tuning import gaussian
from trainshed.tuning.cube import Cube, CubeAxis, Point
from trainshed.tuning.gaussian import low_decile, propose, standardize, trust_region_width
from trainshed.tuning.improvement import log_improvement, log_improvement_slopes
from trainshed.tuning.kernel import Hyperparameters, Priors, fit_hyperparameters, loss, posterior

WORDS = (0.25, 0.75)
MIXED = (
    CubeAxis(),
    CubeAxis(positions=(0.1, 0.3, 0.5, 0.7, 0.9)),
    CubeAxis(positions=WORDS, is_category=True),
    CubeAxis(parent=2, parent_positions=frozenset({0.75})),
    CubeAxis(positions=tuple(i / 99 for i in range(100))),
    CubeAxis(positions=(0.2, 0.8), parent=2, parent_positions=frozenset({0.25})),
)


def mixed_loss(point: Point) -> float:
    x, discrete, word, child, many, other = point
    branch = (child - 0.8) ** 2 if word == 0.75 else 0.2 + other
    return (x - 0.3) ** 2 + (discrete - 0.5) ** 2 + branch + (many - 0.4) ** 2


def searched(axes, loss, trials, parallel=1, seed=0):
    """The points and values of a search in which the oldest trial ends first."""
    points, values, running = [], [], []
    for number in range(trials):
        running.append(propose(points, values, running, axes=axes, seed=seed + number))
        if len(running) == parallel:
            points.append(running.pop(0))
            values.append(loss(points[-1]))
    return points, values


def is_allowed(point: Point, axes) -> bool:
    for x, axis in zip(point, axes, strict=True):
        is_active = axis.parent is None or point[axis.parent] in axis.parent_positions
        if is_active != (not math.isnan(x)):
            return False
        if is_active and not (x in axis.positions if axis.positions else 0 <= x <= 1):
            return False
    return True


@pytest.mark.untraced
def test_a_bowl_in_many_dimensions_is_searched_far_better_than_by_chance():
    goal = np.linspace(0.2, 0.8, 10)

    def bowl(point):
        return float(np.sum((np.array(point) - goal) ** 2))

    # how near one search comes is luck, and luck is another on a machine that rounds otherwise
    minima = [min(searched([CubeAxis()] * 10, bowl, 40, seed=100 * n)[1]) for n in range(3)]
    chance = np.random.default_rng(0).random((4000, 10))
    assert statistics.median(minima) < min(bowl(row) for row in chance)


@pytest.mark.untraced
def test_a_mixed_and_conditional_space_is_searched_to_its_best_branch():
    points, values = searched(MIXED, mixed_loss, 45)
    best = points[int(np.argmin(values))]
    assert best[1:3] == (0.5, 0.75)
    assert min(values) < 0.005


@pytest.mark.untraced
def test_every_point_is_allowed_and_none_is_asked_for_twice():
    points, _ = searched(MIXED, mixed_loss, 30, parallel=4)
    assert all(is_allowed(point, MIXED) for point in points)
    assert len({str(point) for point in points}) == len(points)


def test_pending_points_are_kept_away_from():
    points, values = searched([CubeAxis()] * 2, lambda p: (p[0] - 0.3) ** 2 + (p[1] - 0.6) ** 2, 14)
    first = propose(points, values, [], axes=[CubeAxis()] * 2, seed=1)
    second = propose(points, values, [first], axes=[CubeAxis()] * 2, seed=1)
    assert math.dist(first, second) > 1e-3


def test_a_finite_space_is_used_up_before_a_point_comes_again():
    axes = [CubeAxis(positions=(0.0, 0.5, 1.0)), CubeAxis(positions=WORDS, is_category=True)]
    points, _ = searched(axes, sum, 6)
    assert len(set(points)) == 6
    assert propose(points, [sum(p) for p in points], [], axes=axes, seed=7) in points


def test_what_was_remembered_changes_nothing():
    points, values = searched([CubeAxis()] * 3, sum, 25)
    warm = propose(points, values, [], axes=[CubeAxis()] * 3, seed=3)
    gaussian.forget()
    assert propose(points, values, [], axes=[CubeAxis()] * 3, seed=3) == warm


@pytest.mark.parametrize("noise", Noise)
@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 12,
        [math.nan] * 12,
        [math.nan, math.inf, -math.inf] * 3 + [1.0, 2.0, 3.0],
        [1e300, -1e300] * 6,
        [1e-300 * i for i in range(12)],
    ],
)
def test_strange_values_are_answered_with_a_point(values, noise):
    points = [tuple(row) for row in np.random.default_rng(1).random((12, 2))]
    assert is_allowed(
        propose(points, values, [], axes=[CubeAxis()] * 2, seed=0, noise=noise), [CubeAxis()] * 2
    )


def test_a_failed_region_is_left():
    rng = np.random.default_rng(2)
    points = [tuple(row) for row in rng.random((30, 2))]
    values = [math.nan if x > 0.5 else 1.0 - x + (y - 0.5) ** 2 for x, y in points]
    proposals = [propose(points, values, [], axes=[CubeAxis()] * 2, seed=seed) for seed in range(5)]
    assert sum(x <= 0.6 for x, _ in proposals) >= 4


@example([0.0, 5e-324, 1.0])
@given(st.lists(st.floats(-1e100, 1e100) | st.just(math.nan), min_size=1, max_size=40))
def test_evened_values_keep_their_order(values):
    even = standardize(np.array(values))
    assert np.isfinite(even).all()
    pairs = [(value, own) for value, own in zip(values, even, strict=True) if not math.isnan(value)]
    ordered = sorted(pairs)
    assert all(a[1] <= b[1] + 1e-9 for a, b in pairwise(ordered))


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40).map(sorted))
def test_the_low_decile_is_that_of_numpy(values):
    assert low_decile(np.array(values)) == np.percentile(values, 10)


def test_values_near_the_median_keep_their_proportions_on_request():
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 1e6, math.nan])
    even = standardize(values, linear=3.0)
    assert np.diff(even[:5]) == pytest.approx(np.diff(even[:5])[0])
    assert even[5] - even[4] < 50 * (even[1] - even[0])
    assert even[6] == even[5]
    assert np.diff(standardize(values)[:5]).min() < 0.9 * np.diff(standardize(values)[:5]).max()


def test_the_region_narrows_without_luck_and_widens_with_it():
    start = [5.0] * 10
    falling = [5.0 - i for i in range(1, 4)]
    width = trust_region_width(np.array(start), 10, 4)
    assert trust_region_width(np.array(start + [6.0] * 5), 10, 4) < width
    assert trust_region_width(np.array([9.0] * 9 + [5.0, *falling]), 10, 4) > width


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_slopes_are_those_of_the_values(seed):
    rng = np.random.default_rng(seed)
    groups = np.array([0, 1, 2, 2])
    x, y, theta = rng.random((12, 4)), rng.standard_normal(12), 0.3 * rng.standard_normal(5)
    priors = Priors(length=(0.5, 1.0), noise=(-4.0, 2.0))
    own = approx_fprime(theta, lambda parameters: loss(parameters, x, y, groups, priors)[0], 1e-6)
    assert own == pytest.approx(loss(theta, x, y, groups, priors)[1], rel=1e-3, abs=1e-3)
    belief = posterior(Hyperparameters(lengths=np.ones(3), scale=1.3, noise=0.01), groups, x, y)
    z = rng.random((1, 4))
    _, _, by_mean, by_deviation = belief.slopes(z)
    for index, slope in enumerate((by_mean, by_deviation)):
        estimate = approx_fprime(z[0], lambda row, i=index: belief.at(row[None])[i][0], 1e-6)
        assert estimate == pytest.approx(slope[0], rel=1e-3, abs=1e-3)


def test_a_fitted_length_says_which_axis_matters():
    x = np.random.default_rng(3).random((40, 2))
    hyper = fit_hyperparameters(
        x, np.sin(6 * x[:, 0]), np.arange(2), Priors(length=(0.0, 1.0), noise=(-6.0, 2.0))
    )
    assert hyper.lengths[0] < 0.5 * hyper.lengths[1]


def test_improvement_is_finite_and_steady_far_below_what_is_hoped_for():
    u = np.array([-1e6, -1e3, -100.1, -99.9, -5.1, -4.9, 0.0, 3.0])
    improvements = log_improvement(-u, np.ones(len(u)), 0.0)
    assert np.isfinite(improvements).all()
    assert (np.diff(improvements) > 0).all()
    assert improvements[-2] == pytest.approx(-0.5 * math.log(2 * math.pi))
    _, by_mean, _ = log_improvement_slopes(-u, np.ones(len(u)), 0.0)
    assert by_mean[3] == pytest.approx(-99.9, rel=0.01)


def test_the_words_of_a_category_are_equally_far_apart():
    cube = Cube([CubeAxis(positions=(0.1, 0.5, 0.9), is_category=True)])
    features = cube.features(np.array([[0.1], [0.5], [0.9]]))
    gaps = [math.dist(features[i], features[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert gaps == pytest.approx([1.0, 1.0, 1.0])
