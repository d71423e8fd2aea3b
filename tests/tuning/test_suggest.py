"""What every algorithm promises: points inside the space, none twice, and always the same ones."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.study import SEARCH_RULE, Algorithm, Goal, Metric, Safety, Scale
from trainshed.model.trials import Measurement, TrialState
from trainshed.tuning.space import space_of
from trainshed.tuning.suggest import suggest
from tuning.spaces import (
    LOSS,
    discrete,
    double,
    integer,
    is_inside,
    loss_of,
    luck,
    studies,
    study,
    trial,
    when,
    words,
)

SEEDS = st.integers(0, 2**40)
FEW = settings(max_examples=50, deadline=None)
ALGORITHMS = pytest.mark.parametrize("algorithm", Algorithm)
SEARCHES = pytest.mark.parametrize("algorithm", [Algorithm.DEFAULT, Algorithm.RANDOM_SEARCH])
COST = Metric(metric_id="cost", goal=Goal.MINIMIZE)
LIMIT = Metric(metric_id="cost", goal=Goal.MINIMIZE, safety=Safety(threshold=0.5))

#: What leads to each of the searches: one objective, several, and a limit.
METRICS = pytest.mark.parametrize("metrics", [(LOSS,), (LOSS, COST), (LOSS, LIMIT)])
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


def newest(*parameters, **fields):
    """A study that begins now."""
    return study(*parameters, search_rule=SEARCH_RULE, **fields)


def finished(number, values, draw):
    """A trial that has ended, one way or the other."""
    if draw.random() < 0.2:
        return trial(number, values, state=TrialState.INFEASIBLE)
    return trial(number, values, loss_of(values), cost=draw.random())


def ran(spec, seed, total, at_once, *, prior=()):
    """All trials of a study, of which some end before each further batch; and whether it ended."""
    draw, trials = luck(seed), []
    first = max((t.number for t in prior), default=0) + 1
    while len(trials) < total:
        suggestion = suggest(spec, trials, min(at_once, total - len(trials)), seed, prior=prior)
        if not suggestion.values:
            return trials, suggestion.exhausted
        start = first + len(trials)
        trials += [trial(start + at, values) for at, values in enumerate(suggestion.values)]
        trials = [
            finished(t.number, t.values, draw)
            if t.state is TrialState.ACTIVE and draw.random() < 0.7
            else t
            for t in trials
        ]
    return trials, suggestion.exhausted


def without_range(spec):
    return spec.algorithm is not Algorithm.GRID_SEARCH or space_of(spec).size is not None


@FEW
@given(studies(), SEEDS, st.sampled_from([1, 4, 9]))
def test_points_are_inside_and_none_comes_twice(spec, seed, at_once):
    assume(without_range(spec))
    trials, exhausted = ran(spec, seed, 18, at_once)
    points = [trial.values for trial in trials]
    assert all(is_inside(point, spec) for point in points)
    assert len(set(points)) == len(points)
    size = space_of(spec).size
    if size is None:
        assert len(points) == 18
        assert not exhausted
    else:
        assert len(points) == min(size, 18)
        assert exhausted == (size <= 18)


@FEW
@given(studies(), SEEDS, st.integers(0, 14))
def test_the_same_is_answered_whatever_the_order(spec, seed, total):
    assume(without_range(spec))
    trials, _ = ran(spec, seed, total, 3) if total else ([], False)
    earlier = [trial(t.number + 50, t.values, 0.4) for t in trials[::3]]
    shuffled, shuffled_earlier = trials[:], earlier[:]
    luck(seed).shuffle(shuffled)
    luck(seed).shuffle(shuffled_earlier)
    first = suggest(spec, trials, 3, seed, prior=earlier)
    assert suggest(spec, shuffled, 3, seed, prior=shuffled_earlier) == first


@FEW
@given(studies(), SEEDS, st.integers(0, 14), st.integers(1, 4))
def test_a_batch_is_what_one_after_the_other_would_be(spec, seed, total, count):
    assume(without_range(spec))
    trials, _ = ran(spec, seed, total, 3) if total else ([], False)
    whole = suggest(spec, trials, 5, seed)
    part = suggest(spec, trials, count, seed)
    start = max((t.number for t in trials), default=0) + 1
    running = [trial(start + at, values) for at, values in enumerate(part.values)]
    rest = suggest(spec, [*trials, *running], 5 - count, seed)
    assert part.values + rest.values == whole.values
    assert rest.exhausted == whole.exhausted


@METRICS
@ALGORITHMS
@pytest.mark.parametrize("at_once", [pytest.param(4, marks=pytest.mark.full), 50])
def test_many_at_once_are_all_different(metrics, algorithm, at_once):
    spec = newest(
        words("a", "b", "c", conditions=(when(integer("m", 1.0, 5.0), "b", "c"),)),
        integer("n", 1.0, 200.0, scale=Scale.LOG),
        metrics=metrics,
        algorithm=algorithm,
    )
    trials, _ = ran(spec, 3, 100, at_once)
    assert len({trial.values for trial in trials}) == 100


@METRICS
@SEARCHES
def test_a_small_space_is_used_up_and_then_over(metrics, algorithm):
    spec = newest(words("a", "b"), integer("n"), metrics=metrics, algorithm=algorithm)
    trials, exhausted = ran(spec, 5, 30, 3)
    assert exhausted
    assert len({trial.values for trial in trials}) == 8
    again = suggest(spec, trials, 2, 5)
    assert again.values == ()
    assert again.exhausted


@METRICS
@SEARCHES
def test_conditions_ranges_and_lists_together(metrics, algorithm):
    spec = newest(*MIXED, metrics=metrics, algorithm=algorithm)
    trials, exhausted = ran(spec, 8, 28, 4)
    assert all(is_inside(trial.values, spec) for trial in trials)
    assert len({trial.values for trial in trials}) == 28
    assert not exhausted


@SEARCHES
def test_one_point_of_no_range_is_not_repeated_beside_a_range(algorithm):
    spec = study(words("a", "b", conditions=(when(double("x"), "b"),)), algorithm=algorithm)
    trials, _ = ran(spec, 2, 30, 2)
    assert len({trial.values for trial in trials}) == 30


@SEARCHES
def test_the_first_trial_takes_the_defaults(algorithm):
    spec = study(
        double("x", 1e-4, 1.0, scale=Scale.LOG, default=0.02),
        words("a", "b", default="b", conditions=(when(integer("n", default=3.0), "b"),)),
        algorithm=algorithm,
    )
    first = suggest(spec, (), 1, 11).values
    assert first == ((("x", 0.02), ("opt", "b"), ("n", 3)),)
    second = suggest(spec, [trial(1, first[0], 0.3)], 1, 11).values
    assert second != first


def test_the_first_trial_is_in_the_middle_without_defaults():
    spec = study(double("x", 1e-4, 1.0, scale=Scale.LOG), double("y", default=0.9), integer("n"))
    (values,) = suggest(spec, (), 1, 4).values
    assert dict(values) == {"x": pytest.approx(1e-2), "y": 0.9, "n": 3}


def test_a_random_first_trial_has_chance_beside_its_defaults():
    spec = study(double("x"), double("y", default=0.9), algorithm=Algorithm.RANDOM_SEARCH)
    firsts = [dict(suggest(spec, (), 1, seed).values[0]) for seed in range(5)]
    assert {first["y"] for first in firsts} == {0.9}
    assert len({first["x"] for first in firsts}) == 5


def test_a_trial_that_is_only_requested_is_not_known():
    spec = study(double("x"), double("y"))
    requested = trial(1, (), state=TrialState.REQUESTED)
    assert suggest(spec, [requested], 2, 4) == suggest(spec, [], 2, 4)


@SEARCHES
def test_other_seeds_try_other_points(algorithm):
    spec = study(double("x"), algorithm=algorithm)
    start = [trial(1, (("x", 0.5),), 0.5)]
    assert suggest(spec, start, 3, 1).values != suggest(spec, start, 3, 2).values


@SEARCHES
def test_a_resumed_study_goes_on_from_the_earlier_one(algorithm):
    spec = study(double("x", default=0.5), words("a", "b"), algorithm=algorithm)
    earlier, _ = ran(spec, 6, 25, 3)
    trials, _ = ran(spec, 6, 10, 2, prior=earlier)
    points = {trial.values for trial in earlier if trial.state is TrialState.SUCCEEDED}
    assert not points & {trial.values for trial in trials}


@METRICS
@SEARCHES
def test_chance_of_others_is_neither_used_nor_changed(metrics, algorithm):
    spec = newest(*MIXED, metrics=metrics, algorithm=algorithm)
    trials, _ = ran(spec, 8, 20, 4)
    random.seed(1)
    first, before = suggest(spec, trials, 2, 8), random.getstate()
    random.seed(2)
    assert suggest(spec, trials, 2, 8) == first
    random.seed(1)
    assert random.getstate() == before


RULES = range(1, SEARCH_RULE + 1)


def after_some_trials(**fields):
    """A study of conditions, one of several objectives, and one with a limit, with some trials."""
    points = suggest(study(*MIXED, algorithm=Algorithm.RANDOM_SEARCH), (), 12, 1).values
    trials = [trial(at + 1, point, at * 0.7 % 1, cost=at / 9) for at, point in enumerate(points)]
    limit = replace(COST, safety=Safety(threshold=0.8))
    for metrics in ((LOSS,), (LOSS, COST), (LOSS, limit)):
        yield study(*MIXED, metrics=metrics, **fields), trials


def elsewhere():
    """What those studies suggest by each rule of the search."""
    return [
        suggest(spec, trials, 2, 8).values
        for rule in RULES
        for spec, trials in after_some_trials(search_rule=rule)
    ]


def test_another_process_suggests_the_same():
    environ = {"PYTHONHASHSEED": "7", "OPENBLAS_NUM_THREADS": "2"}
    environ |= {"PYTHONPATH": str(Path(__file__).parents[1])}
    program = "from tuning.test_suggest import elsewhere; print(elsewhere())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == repr(elsewhere())


@pytest.mark.parametrize("rule", RULES)
def test_how_an_engine_ran_the_trials_does_not_matter(rule):
    """Engines differ in when trials run and when their reports are read."""
    for spec, trials in after_some_trials(search_rule=rule):
        suggested = suggest(spec, trials, 2, 8)
        curve = (Measurement(step=3, elapsed_s=0.5, metrics=(("loss", 7.0),)),)
        then = datetime(2026, 1, 1, tzinfo=UTC)
        ran = [
            replace(
                one,
                measurements=curve,
                final=replace(one.final, step=9, elapsed_s=float(one.number)),
                start_time=then,
                end_time=then + timedelta(hours=20 - one.number),
            )
            for one in trials
        ]
        assert suggest(spec, ran, 2, 8) == suggested


@pytest.mark.parametrize("scale", [Scale.LOG, Scale.REVERSE_LOG])
def test_random_points_follow_their_scale(scale):
    spec = study(
        double("x", 0.001, 1.0, scale=scale),
        algorithm=Algorithm.RANDOM_SEARCH,
    )
    values = [point[0][1] for point in suggest(spec, (), 900, 7).values]
    mirrored = [1.001 - value if scale is Scale.REVERSE_LOG else value for value in values]
    shares = [sum(low <= value < 10 * low for value in mirrored) for low in (0.001, 0.01, 0.1)]
    assert all(250 < share < 350 for share in shares)
