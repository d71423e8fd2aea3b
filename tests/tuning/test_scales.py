"""Where values lie between 0 and 1, and that they come back from there."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import ParameterKind, Scale
from trainshed.tuning.scales import all_positions, axis_of
from tuning.spaces import PLAIN, discrete, double, integer, words

POSITIONS = st.floats(0.0, 1.0)
ANY = st.one_of(*(make("p") for make in PLAIN.values()))
FINITE = st.one_of(*(make("p") for kind, make in PLAIN.items() if kind is not ParameterKind.DOUBLE))
LOGS = (Scale.LOG, Scale.REVERSE_LOG)


def values_of(axis):
    return list(axis.values_from(None))


@pytest.mark.parametrize(
    ("spec", "middle"),
    [
        (double(low=0.0, high=10.0), 5.0),
        (double(low=0.0, high=10.0, scale=Scale.LINEAR), 5.0),
        (double(low=1e-4, high=1e-2, scale=Scale.LOG), 1e-3),
        (double(low=1e-4, high=1e-2, scale=Scale.REVERSE_LOG), 1e-2 + 1e-4 - 1e-3),
        (double(low=-1.7e308, high=1.7e308), 0.0),
        (double(low=5e-324, high=1.7e308, scale=Scale.LOG), math.sqrt(5e-324) * math.sqrt(1.7e308)),
        (double(low=3.0, high=3.0), 3.0),
        (integer(low=1.0, high=3.0), 2),
        (integer(low=1.0, high=100.0, scale=Scale.LOG), 7),
        (discrete(16.0, 32.0, 512.0), 32.0),
        (discrete(1.0, 2.0, 1000.0, scale=Scale.LINEAR), 2.0),
        (discrete(1.0, 40.0, 900.0, 1000.0, scale=Scale.LOG), 40.0),
        (discrete(1.0, 40.0, 960.0, 1000.0, scale=Scale.REVERSE_LOG), 960.0),
        (words("a", "b", "c"), "b"),
    ],
)
def test_the_middle_of_a_scale(spec, middle):
    value = axis_of(spec).value(0.5)
    assert value == middle if isinstance(middle, str) else value == pytest.approx(middle)
    assert type(value) is type(middle)


@given(ANY, POSITIONS, POSITIONS)
def test_values_rise_with_their_positions_and_stay_inside(spec, one, other):
    axis = axis_of(spec)
    low, high = (axis.value(position) for position in sorted((one, other)))
    assert axis.equal_values(low) == (low,)
    assert axis.equal_values(high) == (high,)
    assert 0 <= axis.position(low) <= axis.position(high) <= 1


@given(FINITE)
def test_every_value_of_a_list_comes_back_from_its_position(spec):
    axis = axis_of(spec)
    values = values_of(axis)
    assert [axis.value(axis.position(value)) for value in values] == values
    assert len(values) == len(set(values)) == axis.count
    positions = [axis.position(value) for value in values]
    assert all(one < other for one, other in pairwise(positions))


@given(PLAIN[ParameterKind.DOUBLE]("p"), POSITIONS)
def test_a_double_comes_back_from_its_position(spec, position):
    axis = axis_of(spec)
    value = axis.value(position)
    low, high = spec.bounds
    assert axis.value(axis.position(value)) == pytest.approx(value, abs=1e-9 * (high - low))


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**40), st.sampled_from(Scale))
def test_huge_integers_come_back(low, width, scale):
    low = abs(low) + 1 if scale in LOGS else low
    spec = integer(low=float(low), high=float(low) + float(width), scale=scale)
    axis = axis_of(spec)
    for value in (int(spec.bounds[0]), int(spec.bounds[0]) + axis.count // 3, int(spec.bounds[1])):
        assert axis.equal_values(value) == (value,)
        restored = axis.value(axis.position(value))
        assert abs(restored - value) <= max(1, axis.count // 2**45)


@given(PLAIN[ParameterKind.INTEGER]("p"))
def test_each_integer_of_a_linear_scale_has_an_equal_share(spec):
    axis = axis_of(spec)
    if spec.scale not in LOGS:
        drawn = [axis.value((step + 0.5) / 600) for step in range(600)]
        shares = [drawn.count(value) for value in values_of(axis)]
        assert max(shares) - min(shares) <= 1


def test_a_reverse_logarithm_is_the_logarithm_in_a_mirror():
    log = axis_of(double(low=0.9, high=0.999, scale=Scale.LOG))
    mirrored = axis_of(double(low=0.9, high=0.999, scale=Scale.REVERSE_LOG))
    for step in range(11):
        there = mirrored.value(step / 10)
        assert there == pytest.approx(0.9 + 0.999 - log.value(1 - step / 10))


def test_a_reverse_logarithm_is_densest_at_the_upper_end():
    axis = axis_of(double(low=0.001, high=1.0, scale=Scale.REVERSE_LOG))
    drawn = [axis.value((step + 0.5) / 900) for step in range(900)]
    assert sum(value > 0.991 for value in drawn) == pytest.approx(300, abs=3)
    assert sum(0.901 < value <= 0.991 for value in drawn) == pytest.approx(300, abs=3)


def test_discrete_values_are_met_within_a_tiny_gap():
    axis = axis_of(discrete(0.1, 0.2))
    assert axis.equal_values(0.1 + 9e-11) == (0.1,)
    assert axis.equal_values(0.1 + 2e-10) == ()
    assert axis.equal_values("0.1") == ()


def test_a_list_begins_where_it_is_told_to():
    assert list(axis_of(integer(low=1.0, high=4.0)).values_from(3)) == [3, 4, 1, 2]
    assert list(axis_of(words("a", "b", "c")).values_from("c")) == ["c", "a", "b"]


def test_a_word_given_twice_is_one():
    assert values_of(axis_of(words("a", "b", "a"))) == ["a", "b"]


def test_a_range_of_doubles_has_no_list():
    with pytest.raises(ValueError, match="no list"):
        axis_of(double()).values_from(None)


def test_the_middle_of_a_range_that_is_wider_than_a_float_is_its_middle():
    axis = axis_of(double("x", -1.7e308, 1.7e308))
    assert axis.position(0.0) == 0.5
    assert (axis.position(-1.7e308), axis.position(1.7e308)) == (0.0, 1.0)


JUNK = st.sampled_from(["a", "adam", "1", "", 0, 1, 2.5, -0.0, 3.0, math.nan, math.inf, None])


@given(ANY, st.lists(POSITIONS, max_size=4), st.lists(JUNK, max_size=4))
def test_many_values_are_read_as_one_by_one(spec, positions, junk):
    axis = axis_of(spec)
    values = [axis.value(position) for position in positions]
    equal_values = [() if value is None else axis.equal_values(value) for value in values + junk]
    first_equals = axis.first_equals(values + junk)
    assert first_equals == [equals[0] if equals else None for equals in equal_values]
    assert axis.positions_of(values) == [axis.position(value) for value in values]
    assert [type(value) for value in first_equals[: len(values)]] == list(map(type, values))


@given(FINITE)
def test_all_positions_of_a_finite_axis_ascend(spec):
    axis = axis_of(spec)
    positions = all_positions(axis)
    assert list(positions) == [axis.position(value) for value in values_of(axis)]
    assert all(one < other for one, other in pairwise(positions))


def test_many_values_of_the_widest_range_are_read_as_one_by_one():
    axis = axis_of(double("x", -1.7e308, 1.7e308))
    assert axis.positions_of([-1.7e308, 0.0, 1.7e308]) == [0.0, 0.5, 1.0]
