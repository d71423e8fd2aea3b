"""The first and the last step of an attempt, from its report or from its usage."""

import pytest

from trainshed.model.step_times import StepTimes
from trainshed.model.usage import ReplicaUsage, UsageLine
from trainshed.planning.attempt_steps import (
    STEPS_MADE,
    StepsMade,
    read_steps_made,
    steps_in_usage,
    steps_made,
)
from trainshed.planning.goodput import AttemptTimes


def line(at, step=None, task="a"):
    return UsageLine(at=at, s=10.0, replicas={task: ReplicaUsage(step=step)})


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], None),
        ([line(100.0), line(110.0, (1, 2), task="b")], None),
        ([line(100.0, (5, 5))], (90, 100, 5, 5, None)),
        (
            [line(100.0), line(110.0, (3, 5)), line(120.0, (6, 13)), line(130.0, (13, 13))],
            (100, 120, 3, 13, 2.0),
        ),
        ([line(110.0, (8, 10)), line(120.0, (1, 3))], (100, 120, 8, 3, 5.0)),
    ],
    ids=["no line", "no step", "one step", "stands still", "begins again"],
)
def test_the_usage_of_a_replica_has_its_steps(lines, expected):
    made = steps_in_usage(lines, "a")
    if made is not None:
        made = (made.first_s, made.last_s, made.first_step, made.last_step, made.step_s)
    assert made == expected


def test_a_step_is_what_stalls_and_saving_leave():
    times = StepTimes(
        steps=100, first_at=10.0, last_at=130.0, numbered=100, stalled_s=15.0, saving_s=5.0
    )
    made = steps_made(times)
    assert (made.step_s, made.saving_s) == (1.0, 5.0)
    assert read_steps_made(made.data) == made
    assert "first_step" not in made.data[STEPS_MADE]


@pytest.mark.parametrize(("counted", "expected"), [(False, 3), (True, None)])
def test_checkpoints_of_the_program_are_not_compared_with_the_framework_s_count(counted, expected):
    times = StepTimes(
        steps=9, first_at=1.0, last_at=9.0, last_step=900, checkpoint_step=3, counted=counted
    )
    made = steps_made(times)
    assert (made.last_step, made.checkpoint_step) == (900, expected)


def test_the_steps_of_an_attempt_are_those_that_were_added_to_it():
    made = StepsMade(first_s=11.0, last_s=19.0, first_step=1, last_step=9, stalled_s=2.0)
    assert StepsMade.of_attempt(made.add_to(AttemptTimes(attempt=1, placed_s=10.0))) == made
    assert StepsMade.of_attempt(AttemptTimes(attempt=1, placed_s=10.0)) is None


def test_steps_of_other_releases_are_read_as_far_as_they_are_known():
    assert read_steps_made({}) is None
    assert read_steps_made({STEPS_MADE: {"first_s": 1.0}}) is None
    data = {STEPS_MADE: {"first_s": 1.0, "last_s": 2.0, "future": 3}}
    assert read_steps_made(data) == StepsMade(first_s=1.0, last_s=2.0)


def test_a_report_without_a_step_has_none():
    assert steps_made(StepTimes(steps=0)) is None
    assert steps_made(None) is None
