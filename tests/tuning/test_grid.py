"""GRID_SEARCH: every point once, the defaults first, and nothing that was tried."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.study import Algorithm
from trainshed.model.trials import TrialState
from trainshed.tuning.space import space_of
from trainshed.tuning.suggest import grid, suggest
from tuning.spaces import double, integer, is_inside, studies, study, trial, when, words

GRID = {"algorithm": Algorithm.GRID_SEARCH}
FEW = settings(max_examples=60, deadline=None)


def all_points(spec):
    return list(grid(space_of(spec)))


def suggested(spec, trials=(), count=1, **options):
    return suggest(spec, trials, count, 1, **options)


def test_the_last_parameter_varies_fastest():
    spec = study(words("a", "b"), integer("n", 1.0, 2.0))
    points = [tuple(value for _, value in point) for point in all_points(spec)]
    assert points == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_children_are_listed_where_they_exist():
    child = when(integer("n", 1.0, 2.0), "b")
    spec = study(words("a", "b", conditions=(child,)), integer("m", 1.0, 2.0))
    points = [tuple(value for _, value in point) for point in all_points(spec)]
    assert points == [("a", 1), ("a", 2), ("b", 1, 1), ("b", 1, 2), ("b", 2, 1), ("b", 2, 2)]


def test_it_begins_at_the_defaults():
    spec = study(words("a", "b", default="b"), integer("n", 1.0, 3.0, default=2.0))
    points = [tuple(value for _, value in point) for point in all_points(spec)]
    assert points[:4] == [("b", 2), ("b", 3), ("b", 1), ("a", 2)]


@FEW
@given(studies(finite=True, depth=2))
def test_it_has_exactly_all_points_once(spec):
    size = space_of(spec).size
    if size < 1000:
        points = all_points(spec)
        assert len(points) == len(set(points)) == size
        assert all(is_inside(point, spec) for point in points)


@FEW
@given(studies(finite=True, depth=2, algorithm=Algorithm.GRID_SEARCH), st.integers(1, 7))
def test_a_study_tries_exactly_all_points_once(spec, count):
    size = space_of(spec).size
    if size > 60:
        return
    trials = []
    for _ in range(size + 1):
        suggestion = suggested(spec, trials, count)
        assert suggestion.exhausted == (len(trials) + len(suggestion.values) == size)
        start = len(trials) + 1
        trials += [trial(start + at, values, 1.0) for at, values in enumerate(suggestion.values)]
    assert [t.values for t in trials] == all_points(spec)


def test_a_huge_range_is_listed_lazily():
    spec = study(integer("n", 1.0, 2.0**62), words("a", "b"), **GRID)
    suggestion = suggested(spec, count=3)
    assert suggestion.values == tuple(islice(grid(space_of(spec)), 3))
    assert not suggestion.exhausted


def test_what_an_earlier_study_has_found_is_skipped():
    spec = study(integer("n", 1.0, 4.0), **GRID)
    prior = [
        trial(1, (("n", 1),), 0.5),
        trial(2, (("n", 2),), state=TrialState.INFEASIBLE),
        trial(3, (("n", 9),), 0.5),
    ]
    suggestion = suggested(spec, [trial(4, (("n", 3.0),))], 4, prior=prior)
    assert suggestion.values == ((("n", 2),), (("n", 4),))
    assert suggestion.exhausted


def test_a_failed_point_is_not_tried_again():
    spec = study(integer("n", 1.0, 2.0), **GRID)
    failed = trial(1, (("n", 1),), state=TrialState.INFEASIBLE)
    assert suggested(spec, [failed], 2).values == ((("n", 2),),)


def test_one_point_is_a_grid_too():
    spec = study(double("x", 2.0, 2.0), **GRID)
    assert suggested(spec, count=2).values == ((("x", 2.0),),)


def test_a_range_of_doubles_has_no_grid():
    with pytest.raises(ValueError, match="no list"):
        suggested(study(double(), **GRID))
