"""A job that ran is held against what its calibration says of it."""

import pytest

from planning.test_what_ifs import CALIBRATION, HOST
from trainshed.planning.job_outcome import outcome_of, score
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.prediction import Refused
from trainshed.planning.scaling.training import Training


def outcome(step_s):
    run = Run(kind=RunKind.JOB, accelerators=16, hosts=2, steps=1000, step_s=step_s)
    return outcome_of("job_1", CALIBRATION, run, 0.93)


def test_a_job_as_it_was_measured_is_inside():
    found = outcome(0.26)
    assert found.is_inside
    assert found.sentence.startswith("1,000 steps: predicted 4.3 min [")
    assert found.sentence.endswith("took 4.3 min, inside; goodput 0.93")
    assert found.numbers["inside"] is True


def test_a_job_of_twice_the_time_is_a_miss():
    assert "a miss" in outcome(0.52).sentence


def test_what_is_refused_has_no_outcome():
    nothing = Calibration(training=Training(), host=HOST)
    run = Run(kind=RunKind.JOB, steps=1000, step_s=0.1)
    assert isinstance(outcome_of("job_1", nothing, run), Refused)


@pytest.mark.parametrize(
    ("steps", "said"),
    [((0.26,), []), ((0.26, 0.52), ["1 of 2 jobs inside their 80 % intervals."])],
)
def test_several_jobs_are_counted(steps, said):
    assert list(score([outcome(each).numbers for each in steps])) == said
