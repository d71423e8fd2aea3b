"""A calibration learns from jobs."""

from dataclasses import replace

import pytest

from trainshed.planning.scaling.calibration import Run, RunKind
from trainshed.planning.scaling.calibration_file import read, written
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.predict import predict
from trainshed.planning.scaling.prediction import Interval, Prediction
from trainshed.planning.scaling.training import Training
from trainshed.planning.scaling.updating import JOBS_MAX, add_run

HOST = HostKind(machine_type="n1-standard-4", accelerator="CPU", network_gbps=1.0)
TRAINING = Training(gradient_bytes=4e7, batch_per_accelerator=32, stack="torch 2")
SHORT = Run(kind=RunKind.COMPUTE, steps=100, step_s=0.1, step_s_p10=0.099, step_s_p90=0.101)
JOB = Run(
    kind=RunKind.JOB,
    accelerators=4,
    hosts=4,
    machines=4,
    steps=5000,
    step_s=1.5,
    step_s_p10=1.49,
    step_s_p90=1.51,
    date="2026-11-24",
)
BEFORE = replace(calibrated(TRAINING, HOST, [SHORT]), trainer_digest="abc")


def step(calibration) -> Interval:
    prediction = predict(calibration, Cluster(host=HOST, accelerators=4, hosts=4))
    assert isinstance(prediction, Prediction)
    return prediction.step_s


def test_a_job_moves_the_next_prediction_to_what_it_took():
    after = add_run(BEFORE, JOB)
    assert abs(step(after).point - 1.5) < abs(step(BEFORE).point - 1.5)
    assert step(after).high / step(after).low < step(BEFORE).high / step(BEFORE).low
    assert (after.trainer_digest, after.date) == ("abc", "2026-11-24")
    assert after.of(RunKind.COMPUTE) == (SHORT,)


def test_newer_jobs_count_for_more_and_runs_do_not_pile_up():
    after = add_run(BEFORE, JOB)
    for _ in range(8):
        after = add_run(after, replace(JOB, step_s=0.75))
    (run,) = after.of(RunKind.JOB)
    assert run.step_s == pytest.approx(0.75, rel=0.02)


def test_jobs_that_differ_leave_a_wider_interval_until_they_agree_again():
    def width(calibration):
        return step(calibration).high / step(calibration).low

    steady = add_run(add_run(BEFORE, JOB), JOB)
    slower = add_run(steady, replace(JOB, step_s=2.2, step_s_p10=2.19, step_s_p90=2.21))
    assert step(slower).holds(1.5)
    assert step(slower).holds(2.2)
    assert width(slower) > 1.2 > width(steady)
    for _ in range(8):
        slower = add_run(slower, JOB)
    assert width(slower) < 1.2


def test_a_wait_that_fades_stays_what_a_file_may_hold():
    after = add_run(BEFORE, replace(JOB, wait_share=0.05))
    for _ in range(30):
        after = add_run(after, JOB)
    assert read(written(after)).of(RunKind.JOB)[0].wait_share == 0


def test_jobs_of_other_clusters_are_kept_apart():
    after = add_run(add_run(BEFORE, JOB), replace(JOB, accelerators=2, hosts=2, machines=2))
    assert len(after.of(RunKind.JOB)) == 2


@pytest.mark.untraced
def test_where_there_are_too_many_the_oldest_job_goes_and_no_short_run():
    short = [replace(SHORT, batch_per_accelerator=batch) for batch in range(1, 7)]
    after = calibrated(TRAINING, HOST, short)
    for hosts in range(1, JOBS_MAX + 3):
        after = add_run(after, replace(JOB, accelerators=hosts, hosts=hosts, machines=hosts))
    assert list(after.of(RunKind.COMPUTE)) == short
    assert [run.hosts for run in after.of(RunKind.JOB)] == list(range(3, JOBS_MAX + 3))


@pytest.mark.parametrize("run", [SHORT, replace(JOB, step_s=0.0)])
def test_other_runs_are_refused(run):
    with pytest.raises(ValueError, match="a step's time"):
        add_run(BEFORE, run)
