"""What every algorithm promises: points inside the space, none twice, and always the same ones."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainshed.model.study import Algorithm, Goal, Metric, Safety, Scale
from trainshed.model.trials import TrialState
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

#: What leads to each of the samplers: one objective, several, and a limit.
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


def finished(number, values, draw):
    """A trial that has ended, one way or the other."""
    if draw.random() < 0.2:
        return trial(number, values, state=TrialState.INFEASIBLE)
    return trial(number, values, loss_of(values), cost=draw.random())


def ran(asked, seed, total, at_once, *, prior=()):
    """All trials of a study, of which some end before each further batch; and whether it ended."""
    draw, trials = luck(seed), []
    first = max((each.number for each in prior), default=0) + 1
    while len(trials) < total:
        found = suggest(asked, trials, min(at_once, total - len(trials)), seed, prior=prior)
        if not found.values:
            return trials, found.exhausted
        start = first + len(trials)
        trials += [trial(start + at, values) for at, values in enumerate(found.values)]
        trials = [
            finished(each.number, each.values, draw)
            if each.state is TrialState.ACTIVE and draw.random() < 0.7
            else each
            for each in trials
        ]
    return trials, found.exhausted


def without_range(asked):
    return asked.algorithm is not Algorithm.GRID_SEARCH or space_of(asked).size is not None


@FEW
@given(studies(), SEEDS, st.sampled_from([1, 4, 9]))
def test_points_are_inside_and_none_comes_twice(asked, seed, at_once):
    assume(without_range(asked))
    trials, exhausted = ran(asked, seed, 18, at_once)
    points = [each.values for each in trials]
    assert all(is_inside(point, asked) for point in points)
    assert len(set(points)) == len(points)
    size = space_of(asked).size
    if size is None:
        assert len(points) == 18
        assert not exhausted
    else:
        assert len(points) == min(size, 18)
        assert exhausted == (size <= 18)


@FEW
@given(studies(), SEEDS, st.integers(0, 14))
def test_the_same_is_answered_whatever_the_order(asked, seed, total):
    assume(without_range(asked))
    trials, _ = ran(asked, seed, total, 3) if total else ([], False)
    earlier = [trial(each.number + 50, each.values, 0.4) for each in trials[::3]]
    shuffled, shuffled_earlier = trials[:], earlier[:]
    luck(seed).shuffle(shuffled)
    luck(seed).shuffle(shuffled_earlier)
    first = suggest(asked, trials, 3, seed, prior=earlier)
    assert suggest(asked, shuffled, 3, seed, prior=shuffled_earlier) == first


@FEW
@given(studies(), SEEDS, st.integers(0, 14), st.integers(1, 4))
def test_a_batch_is_what_one_after_the_other_would_be(asked, seed, total, count):
    assume(without_range(asked))
    trials, _ = ran(asked, seed, total, 3) if total else ([], False)
    whole = suggest(asked, trials, 5, seed)
    part = suggest(asked, trials, count, seed)
    start = max((each.number for each in trials), default=0) + 1
    running = [trial(start + at, values) for at, values in enumerate(part.values)]
    rest = suggest(asked, [*trials, *running], 5 - count, seed)
    assert part.values + rest.values == whole.values
    assert rest.exhausted == whole.exhausted


@METRICS
@ALGORITHMS
@pytest.mark.parametrize("at_once", [4, 50])
def test_many_at_once_are_all_different(metrics, algorithm, at_once):
    asked = study(
        words("a", "b", "c", conditions=(when(integer("m", 1.0, 5.0), "b", "c"),)),
        integer("n", 1.0, 200.0, scale=Scale.LOG),
        metrics=metrics,
        algorithm=algorithm,
    )
    trials, _ = ran(asked, 3, 100, at_once)
    assert len({each.values for each in trials}) == 100


@METRICS
@SEARCHES
def test_a_small_space_is_used_up_and_then_over(metrics, algorithm):
    asked = study(words("a", "b"), integer("n"), metrics=metrics, algorithm=algorithm)
    trials, exhausted = ran(asked, 5, 30, 3)
    assert exhausted
    assert len({each.values for each in trials}) == 8
    again = suggest(asked, trials, 2, 5)
    assert again.values == ()
    assert again.exhausted


@METRICS
@SEARCHES
def test_conditions_ranges_and_lists_together(metrics, algorithm):
    asked = study(*MIXED, metrics=metrics, algorithm=algorithm)
    trials, exhausted = ran(asked, 8, 40, 4)
    assert all(is_inside(each.values, asked) for each in trials)
    assert len({each.values for each in trials}) == 40
    assert not exhausted


@SEARCHES
def test_one_point_of_no_range_is_not_repeated_beside_a_range(algorithm):
    asked = study(words("a", "b", conditions=(when(double("x"), "b"),)), algorithm=algorithm)
    trials, _ = ran(asked, 2, 30, 2)
    assert len({each.values for each in trials}) == 30


@SEARCHES
def test_the_first_trial_takes_the_defaults(algorithm):
    asked = study(
        double("x", 1e-4, 1.0, scale=Scale.LOG, default=0.02),
        words("a", "b", default="b", conditions=(when(integer("n", default=3.0), "b"),)),
        algorithm=algorithm,
    )
    first = suggest(asked, (), 1, 11).values
    assert first == ((("x", 0.02), ("opt", "b"), ("n", 3)),)
    second = suggest(asked, [trial(1, first[0], 0.3)], 1, 11).values
    assert second != first


def test_the_first_trial_is_in_the_middle_without_defaults():
    asked = study(double("x", 1e-4, 1.0, scale=Scale.LOG), double("y", default=0.9), integer("n"))
    (values,) = suggest(asked, (), 1, 4).values
    assert dict(values) == {"x": pytest.approx(1e-2), "y": 0.9, "n": 3}


def test_a_random_first_trial_has_chance_beside_its_defaults():
    asked = study(double("x"), double("y", default=0.9), algorithm=Algorithm.RANDOM_SEARCH)
    firsts = [dict(suggest(asked, (), 1, seed).values[0]) for seed in range(5)]
    assert {first["y"] for first in firsts} == {0.9}
    assert len({first["x"] for first in firsts}) == 5


def test_a_trial_that_is_only_requested_is_not_known():
    asked = study(double("x"), double("y"))
    requested = trial(1, (), state=TrialState.REQUESTED)
    assert suggest(asked, [requested], 2, 4) == suggest(asked, [], 2, 4)


@SEARCHES
def test_other_seeds_try_other_points(algorithm):
    asked = study(double("x"), algorithm=algorithm)
    start = [trial(1, (("x", 0.5),), 0.5)]
    assert suggest(asked, start, 3, 1).values != suggest(asked, start, 3, 2).values


@SEARCHES
def test_a_resumed_study_goes_on_from_the_earlier_one(algorithm):
    asked = study(double("x", default=0.5), words("a", "b"), algorithm=algorithm)
    earlier, _ = ran(asked, 6, 25, 3)
    trials, _ = ran(asked, 6, 10, 2, prior=earlier)
    points = {each.values for each in earlier if each.state is TrialState.SUCCEEDED}
    assert not points & {each.values for each in trials}


@METRICS
@SEARCHES
def test_chance_of_others_is_neither_used_nor_changed(metrics, algorithm):
    asked = study(*MIXED, metrics=metrics, algorithm=algorithm)
    trials, _ = ran(asked, 8, 20, 4)
    random.seed(1)
    first, before = suggest(asked, trials, 2, 8), random.getstate()
    random.seed(2)
    assert suggest(asked, trials, 2, 8) == first
    random.seed(1)
    assert random.getstate() == before


def elsewhere():
    """What a study of several objectives and conditions suggests after some trials."""
    asked = study(*MIXED, metrics=(LOSS, COST))
    points = suggest(study(*MIXED, algorithm=Algorithm.RANDOM_SEARCH), (), 12, 1).values
    trials = [trial(at + 1, point, at * 0.7 % 1, cost=at / 9) for at, point in enumerate(points)]
    return repr(suggest(asked, trials, 2, 8))


def test_another_process_suggests_the_same():
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[1])}
    program = "from tuning.test_suggest import elsewhere; print(elsewhere())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == elsewhere()


@pytest.mark.parametrize("scale", [Scale.LOG, Scale.REVERSE_LOG])
def test_random_points_follow_their_scale(scale):
    asked = study(
        double("x", 0.001, 1.0, scale=scale),
        algorithm=Algorithm.RANDOM_SEARCH,
    )
    values = [point[0][1] for point in suggest(asked, (), 900, 7).values]
    mirrored = [1.001 - value if scale is Scale.REVERSE_LOG else value for value in values]
    shares = [sum(low <= value < 10 * low for value in mirrored) for low in (0.001, 0.01, 0.1)]
    assert all(250 < share < 350 for share in shares)
