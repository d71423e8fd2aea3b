"""Measured curves: what their losses mean, and steps that no model explains."""

import pytest

from trainshed.planning.scaling.curve import remarks_on
from trainshed.planning.scaling.tables import Point


@pytest.mark.parametrize(
    ("points", "begins", "ends"),
    [
        ({1: 1.0, 2: 1.7, 4: 3.5, 8: 6.2}, "from 2 to 4", "more than the 2 times of the count"),
        ({8: 100.0, 64: 90.0}, "from 8 to 64", "throughput falls to 0.90 of what it was"),
        ({1: 1.0, 512: 46.5}, "46.5 times one on 512", "more than 51 times as fast as one"),
        ({8: 100.0, 128: 400.0}, "4 times 8 on 128", "more than 5 times as fast as 8"),
    ],
)
def test_a_curve_is_told_an_implausible_step_or_its_fixed_share(points, begins, ends):
    (remark,) = remarks_of(points)
    assert remark.startswith(f"{begins} accelerators ")
    assert remark.endswith(ends)


@pytest.mark.parametrize("points", [{8: 100.0, 16: 190.0}, {4: 10.0}])
def test_a_usual_curve_has_no_remarks(points):
    assert not remarks_of(points)


def test_the_fixed_share_of_46_times_on_512():
    assert "is a fixed share of 1.96 %: " in remarks_of({1: 1.0, 512: 46.5})[0]


def remarks_of(points):
    return list(
        remarks_on([Point(accelerators=n, hosts=1, throughput=v) for n, v in points.items()])
    )
