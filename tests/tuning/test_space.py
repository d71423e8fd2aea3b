"""Search spaces: which parameters are active, in which order, and how many points there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import Scale
from trainshed.tuning.history import pending_at
from trainshed.tuning.random_search import point_near, random_point
from trainshed.tuning.space import space_of
from trainshed.tuning.suggest import grid
from tuning.spaces import discrete, double, integer, is_inside, luck, studies, study, when, words

SEEDS = st.integers(0, 2**32)

#: sgd has momentum, and momentum of 1 a warm-up; adam has a rate of its own of the same name.
NESTED = study(
    words(
        "adam",
        "sgd",
        "none",
        conditions=(
            when(double("rate", 0.1, 0.2), "adam"),
            when(double("rate", 1.0, 2.0, scale=Scale.LOG), "sgd"),
            when(
                integer("momentum", 0.0, 1.0, conditions=(when(words("x", name="warm"), 1.0),)),
                "sgd",
            ),
        ),
    ),
    discrete(0.1, 0.2, conditions=(when(integer("deep"), 0.1 + 5e-11),)),
)


def names(values):
    return [name for name, _ in values]


def chosen_by(space, **values):
    return space.walk(lambda dimension: values[dimension.name])


def test_children_are_active_while_their_parents_match():
    space = space_of(NESTED)
    sgd = chosen_by(space, opt="sgd", rate=1.5, momentum=1, warm="x", d=0.2, deep=1)
    assert names(sgd) == ["opt", "rate", "momentum", "warm", "d"]
    still = chosen_by(space, opt="sgd", rate=1.5, momentum=0, warm="x", d=0.1, deep=1)
    assert names(still) == ["opt", "rate", "momentum", "d", "deep"]
    assert names(chosen_by(space, opt="none", d=0.2, rate=9.0)) == ["opt", "d"]


def test_a_name_under_two_conditions_has_the_range_of_its_own():
    space = space_of(NESTED)
    assert space.chosen((("opt", "adam"), ("rate", 0.15), ("d", 0.2))) is not None
    assert space.chosen((("opt", "adam"), ("rate", 1.5), ("d", 0.2))) is None


def test_what_is_no_point_of_the_space_is_none_of_it():
    space = space_of(study(integer("n"), words("a", "b")))
    assert space.chosen((("n", 2.0), ("opt", "a"))) == {0: 2, 1: "a"}
    assert space.chosen((("opt", "a"), ("n", 2))) == {0: 2, 1: "a"}
    for values in (
        (("n", 2),),
        (("n", 2.5), ("opt", "a")),
        (("n", 5), ("opt", "a")),
        (("n", 2), ("opt", "c")),
        (("n", 2), ("opt", "a"), ("more", 1)),
        (("n", "2"), ("opt", "a")),
    ):
        assert space.chosen(values) is None


def test_the_size_of_spaces():
    two = when(integer("two", 1.0, 2.0), "a")
    three = when(integer("three", 1.0, 3.0), "a", "b")
    deep = words("a", "b", "c", conditions=(two, three))
    assert space_of(study(deep)).size == 2 * 3 + 3 + 1
    assert space_of(study(deep, integer())).size == 10 * 4
    assert space_of(study(integer(low=1.0, high=2.0**60))).size == 2**60
    assert space_of(study(integer(), double())).size is None
    assert space_of(study(integer(), double(low=2.0, high=2.0))).size == 4
    child = when(double("rate"), "a")
    assert space_of(study(words("a", "b", conditions=(child,)))).size is None


@given(studies(finite=True, depth=2))
def test_the_size_is_the_number_of_points(spec):
    space = space_of(spec)
    if space.size < 3000:
        assert sum(1 for _ in grid(space)) == space.size


@given(studies(), SEEDS)
def test_points_by_chance_are_inside_with_the_right_parameters(spec, seed):
    space, draw = space_of(spec), luck(seed)
    point = random_point(space, draw)
    assert is_inside(point, spec)
    assert is_inside(point_near(space, point, 0.3, draw), spec)


@given(studies(), SEEDS)
def test_a_point_is_read_as_it_was_made(spec, seed):
    space = space_of(spec)
    point = random_point(space, luck(seed))
    assert space.point(space.chosen(point)) == point


def read_by_walking(space, values):
    """What a trial's values are by index: each active parameter must have one, and no other may."""
    chosen, named = {}, dict(values)
    for dimension in space.dimensions:
        if dimension.is_active(chosen):
            value = named.get(dimension.name)
            equals = () if value is None else dimension.axis.equal_values(value)
            if not equals:
                return None
            chosen[dimension.index] = equals[0]
    return chosen if len(chosen) == len(values) else None


@given(studies(), studies(), SEEDS)
def test_many_trials_are_read_as_one_by_one(spec, other, seed):
    space, draw = space_of(spec), luck(seed)
    trials = [random_point(space_of(one), draw) for one in (spec, other, spec, spec)]
    trials += [trials[0][1:], trials[0][::-1], (*trials[0], ("more", 1.0)), ()]
    assert space.all_chosen(trials) == [read_by_walking(space, values) for values in trials]


def test_a_space_without_parameters_has_one_point():
    assert space_of(study()).all_chosen([(), (("x", 1.0),)]) == [{}, None]


def test_a_point_outside_of_the_space_is_never_pending():
    with pytest.raises(ValueError, match="is not a point of the search space"):
        pending_at(space_of(study(double("x"))), (("x", 2.0),))
