"""A job that ran is held against what its calibration says of it."""

import re
from dataclasses import replace

import pytest

from planning.test_what_ifs import CALIBRATION, HOST, RUNS, TRAINING
from trainshed.planning.job_outcome import outcome_of, score
from trainshed.planning.prices import HourPrice
from trainshed.planning.scaling.calibration import Calibration, Run, RunKind
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import Training


def outcome(step_s):
    run = Run(kind=RunKind.JOB, accelerators=16, hosts=2, steps=1000, step_s=step_s)
    return outcome_of("job_1", CALIBRATION, run, 0.93)


def test_a_job_as_it_was_measured_is_inside():
    report = outcome(0.26)
    assert report.is_inside
    assert report.sentence.startswith("1,000 steps: predicted 4.3 min [")
    assert report.sentence.endswith("took 4.3 min, inside; goodput 93.0 %")
    assert report.numbers["inside"] is True


def test_a_job_of_twice_the_time_is_a_miss():
    assert "a miss" in outcome(0.52).sentence


def test_what_is_refused_has_no_outcome():
    nothing = Calibration(training=Training(), host=HOST)
    run = Run(kind=RunKind.JOB, steps=1000, step_s=0.1)
    assert isinstance(outcome_of("job_1", nothing, run), NoPrediction)


@pytest.mark.parametrize(
    ("steps", "lines"),
    [((0.26,), []), ((0.26, 0.52), ["1 of 2 jobs inside their 80 % intervals."])],
)
def test_several_jobs_are_counted(steps, lines):
    assert list(score([outcome(step_s).numbers for step_s in steps])) == lines


def test_without_goodput_and_with_a_price_the_cost_is_said():
    run = Run(kind=RunKind.JOB, accelerators=16, hosts=2, steps=1000, step_s=0.26)
    price = HourPrice(amount=36.0, currency="USD", dates=(), sources=())
    report = outcome_of("job_1", CALIBRATION, run, price=price)
    assert "goodput" not in report.sentence
    assert report.sentence.endswith("cost 2.60 USD, predicted 2.60")


def test_a_job_over_unknown_links_is_compared_with_their_range():
    host = replace(HOST, network_assumed=True)
    calibration = calibrated(TRAINING, host, RUNS[:2])
    run = Run(kind=RunKind.JOB, accelerators=16, hosts=2, machines=2, steps=1000, step_s=0.26)
    price = HourPrice(amount=36.0, currency="USD", dates=(), sources=())
    report = outcome_of("job_1", calibration, run, price=price)
    assert report.is_inside
    assert report.numbers["class"].endswith(", links unknown")
    low, _, high = report.numbers["predicted_s"]
    assert high > 5 * low
    assert re.search(r"predicted [\d.]+ to [\d.]+ min, took 4.3 min, inside; cost 2.60 USD$",
                     report.sentence), report.sentence  # fmt: skip
    with_link = outcome_of("job_2", calibrated(TRAINING, host, RUNS), run)
    assert not with_link.reach.endswith("unknown")


def test_jobs_of_several_classes_are_counted_apart():
    alone = Run(kind=RunKind.JOB, accelerators=8, hosts=1, steps=1000, step_s=0.2)
    far = Run(kind=RunKind.JOB, accelerators=32, hosts=4, steps=1000, step_s=2.7)
    numbers = [outcome_of("job", CALIBRATION, run).numbers for run in (alone, far)]
    whole, *classes = score(numbers)
    assert whole.startswith("1 of 2")
    assert sorted(line.rpartition(": ")[2] for line in classes) == ["0 of 1", "1 of 1"]
