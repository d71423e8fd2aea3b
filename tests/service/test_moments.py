"""The steps of attempts whose machine's clock was set have the times of the store."""

import pytest

from trainshed.planning.attempt_steps import StepsMade
from trainshed.planning.goodput import AttemptTimes
from trainshed.service.goodput.moments import add_steps

ATTEMPT = AttemptTimes(attempt=1, placed_s=10_000, ended_s=20_000)


@pytest.mark.parametrize(
    ("first_s", "last_s", "skew_s", "expected"),
    [
        (10_100, 19_990, 0, (10_100, 19_990)),
        (10_100, 19_990, 3600, (10_100, 19_990)),  # set after the first step
        (13_700, 23_590, 3600, (10_100, 19_990)),  # set before
        (6_500, 16_390, -3600, (10_100, 19_990)),
        (9_999, 20_001, 0.5, (9_999, 20_001)),
    ],
)
def test_steps_are_within_their_attempt(first_s, last_s, skew_s, expected):
    made = StepsMade(first_s=first_s, last_s=last_s)
    attempt = add_steps(ATTEMPT, made, skew_s, end_s=20_000)
    assert (attempt.first_step_s, attempt.last_step_s) == expected


def test_an_attempt_without_steps_has_none():
    assert add_steps(ATTEMPT, None, 3600, end_s=20_000) == ATTEMPT
