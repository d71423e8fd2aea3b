"""What a job's steps came to, in words."""

from trainshed.model.step_times import StepTimes
from trainshed.planning.steps_achieved import steps_achieved

TIMES = StepTimes(
    steps=40,
    first_s=(0.05,) * 40,
    first_waits_s=(0.0,) * 40,
    recent_s=(0.05,) * 40,
    recent_waits_s=(0.0,) * 40,
    samples=1280,
)
WAITING = StepTimes(
    steps=40, first_s=(0.05,) * 40, first_waits_s=(0.02,) * 40, recent_s=(0.05,) * 40
)


def test_steps_are_told_with_their_rate():
    steps = steps_achieved(TIMES)
    assert steps is not None
    assert steps.sentence == "Steps: 40, 50 ms each (50 to 50), 640 samples/s a replica."


def test_a_job_that_waits_for_its_input_is_told_what_helps():
    steps = steps_achieved(WAITING)
    assert steps is not None
    assert steps.is_input_bound
    assert "bound by input, 40 % of their time: more loader workers" in steps.sentence


def test_nothing_is_said_of_few_steps():
    assert steps_achieved(StepTimes(steps=9, first_s=(0.1,) * 9, first_waits_s=(0,) * 9)) is None
