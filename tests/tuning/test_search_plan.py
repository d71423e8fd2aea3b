"""How many trials fill the space, and what rule 2 changes in a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import SEARCH_RULE
from trainshed.tuning.cube import CubeAxis
from trainshed.tuning.gaussian import propose
from trainshed.tuning.search_plan import FIRST_PLAN, filling_count, search_plan
from trainshed.tuning.suggest import suggest
from tuning.spaces import double, integer, loss_of, study, trial, words

MIXED = (double("rate"), integer("layers", 1, 9), words("relu", "tanh"))
COUNTS = st.integers(1, 2000)


def searched(spec, count, parallel, seed=3):
    """The points of a study, in the order of their trials."""
    trials = []
    while len(trials) < count:
        for values in suggest(spec, trials, parallel, seed).values:
            trials.append(trial(len(trials) + 1, values, loss_of(values)))
    return [one.values for one in trials]


@given(COUNTS, COUNTS, COUNTS)
def test_more_trials_and_more_at_once_are_filled_with_more(trials, more, parallel):
    count = filling_count(trials, parallel)
    assert max(3, parallel) <= count <= max(10, parallel)
    assert count <= filling_count(trials + more, parallel)
    assert count <= filling_count(trials, parallel + more)


@pytest.mark.parametrize("trials", [1, 20, 1000])
def test_a_study_of_the_first_rule_is_filled_as_before(trials):
    assert search_plan(study(double(), trial_count_max=trials)) is FIRST_PLAN


def test_every_rule_has_a_plan():
    for rule in range(1, SEARCH_RULE + 1):
        assert search_plan(study(double(), search_rule=rule)).filling_count


def test_the_model_is_used_from_the_first_results_on():
    axes = [CubeAxis()] * 2
    plan = search_plan(study(double(), trial_count_max=40, search_rule=SEARCH_RULE))
    points = [(0.5, 0.5), (0.2, 0.9), (0.9, 0.1), (0.1, 0.2)]
    down, up = ([sign * x for x, _ in points] for sign in (1, -1))
    assert propose(points, down, [], axes=axes, seed=1, plan=plan)[0] < 0.3
    assert propose(points, up, [], axes=axes, seed=1, plan=plan)[0] > 0.7


@pytest.mark.untraced
@pytest.mark.parametrize("parallel", [1, 4])
def test_a_search_of_the_newest_rule_repeats_itself_and_no_point(parallel):
    spec = study(*MIXED, trial_count_max=24, trial_count_parallel=parallel, search_rule=SEARCH_RULE)
    points = searched(spec, 24, parallel)
    assert len(set(points)) == 24
    assert searched(spec, 24, parallel) == points
    assert searched(spec, 24, parallel, seed=4) != points
