"""Steps in what a trainer prints: timed by when lines were written, however they arrive."""

import pytest

from engines.support import Recorder, python_replica
from trainshed.model.roles import Role
from trainshed.workbench.step_lines import StepLines, step_pattern

REPLICA = python_replica(Role.PRIMARY, 0, "")
PATTERN = step_pattern("step (?P<step>.*)")
MS = 1_000_000


def heard(*lines, pattern=PATTERN):
    """Lines with their milliseconds, all delivered at the same moment."""
    reader = StepLines(Recorder(), pattern, REPLICA.task_name, clock=lambda: 0.0)
    for at_ms, text in lines:
        reader.stamp(int(at_ms * MS))
        reader.line(REPLICA, text, "stdout")
    return reader


def seconds(reader):
    return [pytest.approx(time) for time in reader.times.first_s]


def test_lines_are_timed_by_when_they_were_written():
    reader = heard(*((5 * step, f"step {step}") for step in range(4)))
    assert seconds(reader) == [0.005, 0.005, 0.005]
    assert reader.times.steps == 3


def test_lines_that_came_together_share_the_time_since_those_before():
    batches = [(20 * (step // 10) + step * 1e-6, f"step {step}") for step in range(40)]
    reader = heard(*batches)
    assert seconds(reader) == [0.002, 0.002, 0.002]
    assert reader.times.steps == 30


def test_steps_quicker_than_lines_can_be_told_apart_are_timed_in_groups():
    reader = heard(*((0.2 * step, f"step {step}") for step in range(1000)))
    times = sorted(reader.times.first_s)
    assert times[len(times) // 2] == pytest.approx(0.0002)


def test_the_first_line_of_a_step_is_the_one_that_counts():
    lines = [(10 * step + more, f"step {step}") for step in range(4) for more in (0, 6)]
    assert seconds(heard(*lines)) == [0.01, 0.01, 0.01]


def test_a_count_that_begins_anew_goes_on():
    lines = [(10 * step, f"step {step % 3}") for step in range(6)]
    reader = heard(*lines)
    assert reader.times.steps == 4
    assert seconds(reader) == [0.01] * 4


def test_lines_without_a_stamp_are_timed_as_they_arrive():
    times = iter([0.0, 1.0, 3.0])
    reader = StepLines(Recorder(), PATTERN, REPLICA.task_name, clock=lambda: next(times))
    for step in range(3):
        reader.line(REPLICA, f"step {step}", "stdout")
    assert reader.times.first_s == (1.0, 2.0)


def test_lines_of_others_and_without_a_pattern_tell_nothing():
    other = python_replica(Role.WORKER, 0, "")
    reader = StepLines(Recorder(), PATTERN, REPLICA.task_name)
    for step in range(3):
        reader.line(other, f"step {step}", "stdout")
    assert reader.times is None
    assert heard((0, "step 1"), (5, "step 2"), pattern=None).times is None


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "no line matches --step-pattern"),
        (["one", "two"], "2 lines match --step-pattern, and their step is not a whole number"),
        (["two"], "such as 'two'"),
        (["7"], "1 line matches --step-pattern, and one step is not enough to measure a time"),
        (["7", "7", "7"], "3 lines match --step-pattern, and no step is larger than the one"),
        (["9", "8", "7"], "the last was '7'"),
    ],
)
def test_why_no_step_was_heard_is_said(steps, words):
    reader = heard(*((5 * at, f"step {step}") for at, step in enumerate(steps)))
    assert reader.times is None
    assert words in reader.why_none


def test_steps_that_came_all_at_once_have_no_time():
    reader = heard(*((0, f"step {step}") for step in range(300)))
    assert reader.times is None
    assert reader.why_none == "300 lines match --step-pattern, and they arrived all at once"
