"""Measured curves: their fit, their losses, and steps that no monotone model explains."""

import pytest

from trainshed.planning.scaling.curve import curve_of
from trainshed.planning.scaling.tables import Point, Series


def curve(points):
    """Return the fitted curve of throughputs on one host, by the number of accelerators."""
    measured = (Point(accelerators=n, hosts=1, throughput=v) for n, v in points.items())
    return curve_of(Series(id="curve", points=tuple(measured)))


def test_a_step_that_gains_more_than_the_count_is_named_and_fitted():
    alexnet = curve({1: 1.0, 2: 1.7, 4: 3.5, 8: 6.2})
    assert max(abs(point.error) for point in alexnet.points) < 0.06
    (sentence,) = alexnet.offending
    assert "from 2 to 4 accelerators" in sentence


def test_a_fixed_share_explains_46_times_on_512():
    bert = curve({1: 1.0, 512: 46.5})
    assert bert.fixed_share == pytest.approx(0.0196, abs=2e-4)
    (limit,) = bert.remarks
    assert limit.startswith("46.5 times one on 512 accelerators is a fixed share of 1.96 %")
    assert limit.endswith("no count is more than 51 times as fast as one")
    assert curve({8: 100.0, 16: 190.0}).fixed_share is None
    assert curve({8: 100.0, 64: 90.0}).fixed_share is None, "it falls"


def test_a_curve_that_falls_is_fitted_and_said():
    falling = curve({8: 1531.9, 16: 546.9})
    assert falling.offending == (
        "from 8 to 16 accelerators throughput falls to 0.36 of what it was",
    )
    assert curve({4: 10.0}).points[0].efficiency == 1
