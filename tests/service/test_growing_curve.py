"""Curves of bounded size: nothing of what was added is lost from minimum, mean and maximum."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.service.figures.answers import ScalarSource
from trainshed.service.figures.growing_curve import CurvePoint, GrowingCurve
from trainshed.service.figures.merge_curves import NamedCurve, merge_curves

VALUES = st.floats(-1e300, 1e300)


def curve_of(values, points_max=2000, first_step=0):
    curve = GrowingCurve()
    for step, value in enumerate(values, first_step):
        curve.add(CurvePoint.of_value(step, 1000.0 + step, value), points_max)
    return curve


def points_of(curve, points_max):
    return [CurvePoint(*point) for point in curve.points(points_max)]


@given(st.lists(VALUES, min_size=1, max_size=200), st.integers(2, 20), st.integers(2, 20))
def test_a_curve_keeps_its_ends_and_extremes_in_any_size(values, kept_max, points_max):
    points = points_of(curve_of(values, kept_max), points_max)
    assert len(points) <= points_max
    assert min(point.low for point in points) == min(values)
    assert max(point.high for point in points) == max(values)
    assert points[-1].step == len(values) - 1
    steps = [point.step for point in points]
    assert steps == sorted(set(steps))
    for point in points:
        assert math.isfinite(point.mean)


@given(st.lists(VALUES, min_size=1, max_size=50), st.integers(2, 60))
def test_points_of_one_value_each_are_as_they_were_added(values, points_max):
    points = [CurvePoint.of_value(step, 1.0, value) for step, value in enumerate(values)]
    merged = GrowingCurve.of_points(points, 2000).points(points_max)
    if len(values) <= points_max:
        assert merged == points
    assert max(point[4] for point in merged) == max(values)


def test_a_mean_is_that_of_all_values_of_the_point():
    (first, second) = points_of(curve_of([1, 2, 3, 4, 10, 20, 30], points_max=7), 2)
    assert (first.low, first.mean, first.high, first.step) == (1, 2.5, 4, 3)
    assert (second.low, second.mean, second.high) == (10, pytest.approx(20), 30)


def test_a_curve_without_steps_has_none():
    curve = GrowingCurve()
    curve.add(CurvePoint(None, 7.0, 1.0, 2.0, 3.0), 10)
    assert curve.points(10) == [(None, 7.0, 1.0, 2.0, 3.0)]


def series_of(*curves, points_max=2000):
    named = [NamedCurve("loss", "train", 1, curve) for curve in curves]
    return list(merge_curves(named, ScalarSource.EVENT_FILES, points_max))


def test_a_file_that_continues_another_is_in_the_same_series():
    (series,) = series_of(curve_of([4, 3]), curve_of([2, 1], first_step=2))
    assert [point[3] for point in series.points] == [4, 3, 2, 1]


def test_files_of_the_same_steps_are_series_of_their_own():
    first, second = series_of(curve_of([4, 3]), curve_of([5, 6]))
    assert (first.run, second.run) == ("train", "train (2)")


def test_the_files_of_a_series_share_its_points():
    curves = [curve_of(range(10), first_step=10 * number) for number in range(5)]
    (series,) = series_of(*curves, points_max=7)
    assert len(series.points) <= 7
    assert (series.points[-1][0], series.points[-1][4]) == (49, 9)
