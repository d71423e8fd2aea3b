"""Jobs that wait for their input."""

import pytest
from benchmarks.planning import frame, goals_input

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.input_bound import find_input_bound, of_run
from trainshed.planning.scaling.training import Training


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        ({"cached_step_s": 0.5}, "100 % longer"),
        ({"input_s": 0.95}, "95 % of a step"),
        ({"wait_share": 0.3}, "30 % of time"),
    ],
)
def test_each_sign_is_named(sign, words):
    assert words in find_input_bound(1.0, **sign).evidence


def test_a_job_that_is_fed_has_no_sign():
    assert find_input_bound(1.0, cached_step_s=0.98, input_s=0.5, wait_share=0.01) is None


def test_a_run_is_judged_by_what_its_host_delivers():
    run = Run(kind=RunKind.HOST, accelerators=8, step_s=0.1)
    training = Training(batch_per_accelerator=32)
    assert of_run(run, 300.0, training) is not None
    assert of_run(run, 30000.0, training) is None
    assert of_run(run, 0.0, training) is None


def test_the_goals_of_input_are_met():
    rows = frame.rows_of(frame.PUBLISHED)
    lines = goals_input.input_bound(rows, rows).lines
    assert [
        f"{li.name} {li.goals}" for li in lines if not all(goal.holds for goal in li.goals)
    ] == []
