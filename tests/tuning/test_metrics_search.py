"""Studies of several objectives and limits under rule 2: a Gaussian process for each metric."""

import math

import numpy as np
import pytest
from benchmarks.tuning.metrics import hypervolume

from trainshed.model.study import Goal, Metric, Noise, Safety, Scale
from trainshed.model.trials import TrialState
from trainshed.tuning.cube import CubeAxis
from trainshed.tuning.gaussian import ModelAssumptions, fitted_hyperparameters, forget
from trainshed.tuning.metrics_search import Results, propose_for_metrics, reference_point
from trainshed.tuning.ranking import is_safe, pareto
from trainshed.tuning.search_plan import FIRST_PLAN, search_plan
from trainshed.tuning.suggest import suggest
from tuning.spaces import (
    LOSS,
    discrete,
    double,
    integer,
    is_inside,
    luck,
    study,
    trial,
    when,
    words,
)

COST = Metric(metric_id="cost", goal=Goal.MINIMIZE)
TIME = Metric(metric_id="time", goal=Goal.MAXIMIZE)
SIZE = Metric(metric_id="size", goal=Goal.MINIMIZE)
LIMIT = Metric(metric_id="cost", goal=Goal.MINIMIZE, safety=Safety(threshold=0.5))
MODEL = ModelAssumptions(noise=Noise.DEFAULT, plan=FIRST_PLAN)
KINDS = pytest.mark.parametrize(
    "metrics", [(LOSS, COST), (LOSS, LIMIT), (LOSS, COST, TIME), (LOSS, COST, TIME, SIZE)]
)
MIXED = (
    words(
        "adam",
        "sgd",
        conditions=(
            when(double("rate", 0.1, 0.2), "adam"),
            when(integer("rate", 1.0, 30.0, scale=Scale.LOG), "sgd"),
        ),
    ),
    discrete(0.1, 0.2, 0.7),
    double("x", -1.0, 1.0, scale=Scale.LINEAR),
)


def searched(spec, total, measure, seed=1, at_once=1):
    """The trials of a study; ``measure`` returns None for a trial that fails."""
    trials = []
    while len(trials) < total:
        for values in suggest(spec, trials, at_once, seed).values:
            metrics = measure(dict(values))
            state = TrialState.SUCCEEDED if metrics else TrialState.INFEASIBLE
            trials.append(trial(len(trials) + 1, values, state=state, **(metrics or {})))
    return trials


def second(*parameters, metrics, **fields):
    """A study that begins now."""
    return study(*parameters, metrics=metrics, search_rule=2, **fields)


def measured(values):
    """Some metrics at a point of any space; one in seven fails."""
    numbers = [len(v) / 5 if isinstance(v, str) else math.tanh(v / 10) for v in values.values()]
    if round(100 * sum(numbers)) % 7 == 0:
        return None
    total = sum(numbers)
    return {"loss": (total - 0.7) ** 2, "cost": total, "time": math.sin(3 * total), "size": -total}


@KINDS
def test_points_of_mixed_and_conditional_spaces_are_inside_and_differ(metrics):
    spec = second(*MIXED, metrics=metrics)
    trials = searched(spec, 15, measured, at_once=5)
    assert all(is_inside(one.values, spec) for one in trials)
    assert len({one.values for one in trials}) == 15
    assert searched(spec, 15, measured, at_once=5) == trials


@KINDS
def test_a_batch_is_what_one_after_the_other_would_be(metrics):
    spec = second(double("x"), double("y"), metrics=metrics)
    trials = searched(spec, 12, measured, at_once=4)
    whole = suggest(spec, trials, 5, 1).values
    part = suggest(spec, trials, 2, 1).values
    running = [trial(13 + at, values) for at, values in enumerate(part)]
    assert part + suggest(spec, [*trials, *running], 3, 1).values == whole
    rows = np.array([[value for _, value in values] for values in whole])
    gaps = np.abs(rows[:, None] - rows[None, :]).max(axis=2)[np.triu_indices(5, 1)]
    assert gaps.min() > 0.9e-3


def test_spaces_that_the_process_cannot_search_are_searched_by_tpe():
    parent = integer("n", 1.0, 1e6, conditions=(when(double("x"), 7.0),))
    spec = second(parent, double("y"), metrics=(LOSS, COST))
    trials = searched(spec, 14, measured)
    assert all(is_inside(one.values, spec) for one in trials)


def branin(values):
    """Branin's function, and a disk that has one of its optima."""
    x, y = values["x"], values["y"]
    curve = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    loss = curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    return {"loss": loss, "disk": (x - 2.5) ** 2 + (y - 7.5) ** 2}


@pytest.mark.untraced
def test_it_finds_the_optimum_of_branin_within_a_limit():
    disk = Metric(metric_id="disk", goal=Goal.MINIMIZE, safety=Safety(threshold=50.0))
    spec = second(double("x", -5.0, 10.0), double("y", 0.0, 15.0), metrics=(LOSS, disk))
    trials = searched(spec, 30, branin)
    safe = [dict(one.final.metrics)["loss"] for one in trials if is_safe(spec, one)]
    assert min(safe) < 0.41


@pytest.mark.untraced
def test_it_finds_a_front_that_chance_does_not():
    def spheres(values):
        rest = 0.2 * sum((values[name] - 0.5) ** 2 for name in "yzu")
        return {"loss": values["x"] ** 2 + rest, "cost": (values["x"] - 1) ** 2 + rest}

    spec = second(*map(double, "xyzu"), metrics=(LOSS, COST))
    front = pareto(spec, searched(spec, 30, spheres))
    rests = [sum((dict(one.values)[name] - 0.5) ** 2 for name in "yzu") for one in front]
    assert len(front) >= 8
    assert np.median(rests) < 0.02
    shares = sorted(dict(one.values)["x"] for one in front)
    assert shares[0] < 0.2
    assert shares[-1] > 0.8


@pytest.mark.untraced
def test_it_finds_a_front_of_three_and_its_middle():
    """Random points have a volume of 0.025, and 0.203 in the middle."""
    goals = {"loss": (0.2, 0.2), "cost": (0.8, 0.2), "time": (0.5, 0.8)}

    def distances(values):
        rest = 0.2 * sum((values[name] - 0.5) ** 2 for name in "zu")
        at = (values["x"], values["y"])
        away = {name: math.dist(at, goal) ** 2 + rest for name, goal in goals.items()}
        return {**away, "time": -away["time"]}

    spec = second(*map(double, "xyzu"), metrics=(LOSS, COST, TIME))
    front = [dict(one.final.metrics) for one in pareto(spec, searched(spec, 24, distances))]
    assert len(front) >= 19
    losses = np.array([(one["loss"], one["cost"], -one["time"]) for one in front])
    assert hypervolume(losses, np.full(3, 0.45)) > 0.048
    assert losses.max(axis=1).min() < 0.185


@pytest.mark.parametrize("angle", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("is_known", [True, False])
def test_without_a_safe_trial_the_search_mostly_goes_where_the_excess_falls(angle, is_known):
    """Of a hundred proposals about ten go to an empty corner instead."""
    slope = np.array([math.cos(angle), math.sin(angle)])
    falls = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points, unit = rng.random((12, 2)), 10 ** rng.uniform(-3, 3)
        heights = points @ slope
        excesses = unit * (heights - heights.min() + 0.3)
        losses = np.ones(12) if is_known else np.where(np.arange(12) < 6, heights, np.nan)
        results = Results(points=points, losses=losses[:, None], excesses=excesses[:, None])
        proposal = propose_for_metrics(
            results, np.empty((0, 2)), axes=[CubeAxis()] * 2, seed=seed, model=MODEL
        )
        falls.append(np.array(proposal) @ slope < np.median(heights))
    assert sum(falls) >= 16


STRANGE = [
    [0.0] * 12,
    [math.nan] * 12,
    [math.nan, 1.0, -1.0] * 4,
    [1e300, -1e300] * 6,
    [1e-300 * i for i in range(12)],
    [0.0] * 6 + [1.0] * 6,
]


@pytest.mark.parametrize("limited", STRANGE)
@pytest.mark.parametrize("losses", STRANGE)
def test_strange_values_are_answered_with_a_point(losses, limited):
    points = np.random.default_rng(1).random((12, 2))
    column, excesses = np.array(losses)[:, None], np.array(limited)[:, None]
    for objectives in (column, np.hstack([column, column[::-1]])):
        results = Results(points=points, losses=objectives, excesses=excesses)
        proposal = propose_for_metrics(
            results, points[:1] / 2, axes=[CubeAxis()] * 2, seed=0, model=MODEL, is_careful=True
        )
        assert all(0 <= x <= 1 for x in proposal)


def test_a_region_where_trials_fail_is_left():
    def half(values):
        return None if values["x"] > 0.5 else {"loss": -values["x"], "cost": values["y"]}

    for metrics in ((LOSS, LIMIT), (LOSS, COST)):
        trials = searched(second(double("x"), double("y"), metrics=metrics), 18, half)
        failed = sum(one.state is TrialState.INFEASIBLE for one in trials[8:])
        assert failed < 6


def test_only_failures_are_no_reason_to_stop():
    spec = second(double("x"), double("y"), metrics=(LOSS, LIMIT))
    trials = searched(spec, 16, lambda _values: None)
    assert len({one.values for one in trials}) == 16


def heat(fraction):
    safety = Safety(threshold=1.0, fraction_min=fraction)
    return (LOSS, Metric(metric_id="heat", goal=Goal.MINIMIZE, safety=safety))


def heated(values):
    """The limit cuts through the best points."""
    heat_value = values["x"] + abs(values["y"]) + 0.3 * math.sin(7 * values["x"])
    return {"loss": -values["x"] * (1 + 0.1 * math.sin(5 * values["y"])), "heat": heat_value}


@pytest.mark.untraced
def test_a_desired_share_of_safe_trials_is_reached():
    square = (double("x", -5.0, 5.0), double("y", -5.0, 5.0))
    shares, best = [], []
    for fraction in (0.0, 0.8):
        spec = second(*square, metrics=heat(fraction))
        trials = searched(spec, 30, heated, seed=3)
        safe = [one for one in trials if is_safe(spec, one)]
        shares.append(len(safe) / len(trials))
        best.append(min(dict(one.final.metrics)["loss"] for one in safe))
    assert shares[1] >= 0.75
    assert best[1] < 0.9 * best[0]


def test_enough_safe_trials_set_the_search_free():
    square = (double("x", -5.0, 5.0), double("y", -5.0, 5.0))
    draw, trials = luck(2), []
    for number in range(1, 21):
        values = {"x": draw.uniform(-5, 0), "y": draw.uniform(-1, 1)}
        trials.append(trial(number, tuple(values.items()), **heated(values)))
    many, none = (second(*square, metrics=heat(fraction)) for fraction in (0.2, 0.0))
    assert suggest(many, trials, 3, 1) == suggest(none, trials, 3, 1)


def test_the_first_trials_of_a_study_with_too_few_safe_ones_stay_near():
    spec = second(double("x", -5.0, 5.0), double("y", -5.0, 5.0), metrics=heat(0.9))
    trials = [
        trial(1, (("x", 4.0), ("y", 4.0)), -4.0, heat=8.0),
        trial(2, (("x", -3.0), ("y", 0.0)), 3.0, heat=-3.0),
    ]
    assert len(trials) < search_plan(spec).filling_count
    for values in suggest(spec, trials, 20, 1).values:
        assert max(abs(dict(values)["x"] + 3.0), abs(dict(values)["y"])) < 4.5


def test_the_reference_point_is_beyond_the_front_in_every_objective():
    front = np.array([[0.0, 2.0], [1.0, 1.0]])
    usual = np.array([0.5, 0.5])
    assert reference_point(front, usual) == pytest.approx([1.1, 2.1])
    assert (reference_point(front[:1], usual) > front[0]).all()
    assert reference_point(front - 5, usual) == pytest.approx(usual)


def test_a_front_at_one_end_of_the_space_grows_towards_the_other_end():
    """Most of the trials have the least cost, where nothing is to be gained."""
    suggested = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.uniform(0, 0.08, 26), [0.5, 0.9]])
        points = np.column_stack([x, rng.uniform(0, 1, 28)])
        losses = np.column_stack([1 - x + (points[:, 1] - 0.3) ** 2, x])
        losses[-2:, 0] = 2.0
        results = Results(points=points, losses=losses, excesses=np.empty((28, 0)))
        axis = CubeAxis(positions=(), is_category=False, parent=None, parent_positions=frozenset())
        point = propose_for_metrics(
            results, np.empty((0, 2)), axes=[axis] * 2, seed=seed, model=MODEL
        )
        suggested.append(point[0])
    assert sum(coordinate > 0.1 for coordinate in suggested) >= 4


def test_after_many_trials_models_are_fitted_again_when_a_tenth_is_added():
    rng = np.random.default_rng(4)
    points, losses = rng.random((62, 2)), rng.random((62, 2))
    forget()
    fits = []
    for count in (57, 58, 61, 62):
        results = Results(
            points=points[:count], losses=losses[:count], excesses=np.empty((count, 0))
        )
        axes = [CubeAxis(), CubeAxis()]
        propose_for_metrics(results, np.empty((0, 2)), axes=axes, seed=1, model=MODEL)
        fits.append(fitted_hyperparameters.cache_info().misses)
    assert fits == [2, 2, 2, 4]
