"""Figures of plans, as people read them."""

import math
import re
from dataclasses import replace

import pytest

from planning.test_what_ifs import CALIBRATION, HOST, JOB, RUNS, TRAINING, planned
from trainshed.planning.amounts import figure
from trainshed.planning.layouts import HostType
from trainshed.planning.plan_words import head, interval, recommendations, remarks
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.scaling.training import Training


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (math.inf, "inf"), (0.01234, "0.0123"), (12.34, "12.3"), (123456.0, "123,456")],
)
def test_figures_have_three_digits_and_no_exponent(value, text):
    assert figure(value) == text


def test_no_interval_is_no_word():
    assert interval(None) == ""


def test_what_was_measured_is_no_times_of_itself():
    whole = calibrated(TRAINING, HOST, RUNS[1:])
    text = head(planned(8, calibration=whole, job=replace(JOB, hosts=1)))
    assert re.match(r"8 GPUs: 2,560 samples/s \([\d,]+ to [\d,]+\), ", text), text


def test_one_is_not_called_several():
    job = replace(JOB, hosts=1)
    often = {"spot": 20.0, "checkpoint_every": 3600.0}
    plan = planned(8, job=job, reducers=0, **often)
    assert plan.own.answer.message.startswith("1 machine would be interrupted")


def test_limits_are_named_where_they_are_asked():
    limits = {"deadline": 3 * 3600.0, "budget": 1e6}
    (line,) = [
        sentence
        for sentence in recommendations(planned(8, 16, reducers=0, **limits))
        if sentence.startswith("meets it")
    ]
    assert "deadline 3.0 h" in line
    assert "budget 1,000,000" in line


def test_a_plan_without_figures_has_nothing_to_remark():
    nothing = replace(CALIBRATION, training=Training(), runs=(), fitted=type(CALIBRATION.fitted)())
    assert list(remarks(planned(8, calibration=nothing))) == []


def test_a_budget_alone_is_named_and_what_nothing_meets_is_explained():
    limits = {"budget": 1.0}
    (line,) = [
        sentence
        for sentence in recommendations(planned(8, 16, reducers=0, **limits))
        if sentence.startswith("meets it")
    ]
    assert "accepted: a larger budget, or other what-ifs" in line
    assert line.endswith("(budget 1.00 USD)")


def test_machines_without_a_name_and_a_price_have_hours():
    host = replace(JOB.host, machine_type="")
    calibration = replace(CALIBRATION, host=replace(CALIBRATION.host, machine_type=""))
    plan = planned(
        8, 16, reducers=0, job=replace(JOB, host_type=HostType(host=host)), calibration=calibration
    )
    assert all(" on " not in sentence for sentence in recommendations(plan))
    assert any(
        "accelerator-hours (no price is known)" in sentence for sentence in recommendations(plan)
    )
    assert not any(sentence.startswith("Prices") for sentence in remarks(plan))
