"""Learning curves thinned out for drawing keep their ends and their best point."""

import pytest

from trainshed.tuning.curves import TrialCurve
from trainshed.tuning.thinning import thin_out


def curve(values):
    return TrialCurve(number=1, at=tuple(map(float, range(len(values)))), values=tuple(values))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_short_curve_stays_whole(count):
    whole = curve([float(n) for n in range(count)])
    assert thin_out(whole, 5) == (whole.at, whole.values)


@pytest.mark.parametrize("best_at", [0, 1, 500, 998, 999])
@pytest.mark.parametrize("count_max", [3, 4, 200])
def test_a_long_curve_keeps_its_ends_and_its_best_point(best_at, count_max):
    values = [0.5] * 1000
    values[best_at] = 0.9
    at, thinned = thin_out(curve(values), count_max)
    assert len(at) == len(thinned) <= count_max
    assert list(at) == sorted(set(at))
    assert {0.0, 999.0, float(best_at)} <= set(at)
    assert max(thinned) == 0.9
