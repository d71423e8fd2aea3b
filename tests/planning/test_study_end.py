"""When a study will be over, from its trials."""

import pytest

from trainshed.planning.study_end import StudySoFar, study_end


def so_far(**more):
    given = {"lasted_s": (60.0,) * 4, "trials_max": 12, "parallel": 4}
    return StudySoFar(**given | more)


def test_equal_trials_leave_no_doubt():
    found = study_end(so_far())
    assert found is not None
    assert found.left_s.low == found.left_s.point == found.left_s.high == 120
    assert found.machine_s.point == 12 * 60


def test_what_has_run_counts():
    found = study_end(so_far(running_s=(20.0, 40.0)))
    assert found is not None
    assert found.left_s.point == 90


def test_an_interval_is_around_unequal_trials():
    found = study_end(so_far(lasted_s=(30.0, 60.0, 90.0)))
    assert found is not None
    assert found.left_s.point == pytest.approx(180)
    assert 90 <= found.left_s.low < 180 < found.left_s.high


def test_trials_that_run_for_longer_than_others_did_end_at_once():
    found = study_end(so_far(trials_max=5, running_s=(500.0,)))
    assert found is not None
    assert found.left_s.point == 0 <= found.left_s.low


@pytest.mark.parametrize("more", [{"lasted_s": (1.0, 2.0)}, {"trials_max": 4}])
def test_nothing_is_said_too_early_or_too_late(more):
    assert study_end(so_far(**more)) is None
