"""When a study will be over, from its trials."""

import pytest

from trainshed.planning.study_end import StudySoFar, study_end


def so_far(**more):
    study = {"lasted_s": (60.0,) * 4, "trials_max": 12, "parallel": 4}
    return StudySoFar(**study | more)


def test_equal_trials_leave_no_doubt():
    end = study_end(so_far())
    assert end is not None
    assert end.left_s.low == end.left_s.point == end.left_s.high == 120
    assert end.machine_s.point == 12 * 60


def test_what_has_run_counts():
    end = study_end(so_far(running_s=(20.0, 40.0)))
    assert end is not None
    assert end.left_s.point == 90


def test_an_interval_is_around_unequal_trials():
    end = study_end(so_far(lasted_s=(30.0, 60.0, 90.0)))
    assert end is not None
    assert end.left_s.point == pytest.approx(180)
    assert 90 <= end.left_s.low < 180 < end.left_s.high


def test_trials_that_run_for_longer_than_others_did_end_at_once():
    end = study_end(so_far(trials_max=5, running_s=(500.0,)))
    assert end is not None
    assert end.left_s.point == 0 <= end.left_s.low


@pytest.mark.parametrize("more", [{"lasted_s": (1.0, 2.0)}, {"trials_max": 4}])
def test_nothing_is_said_too_early_or_too_late(more):
    assert study_end(so_far(**more)) is None
