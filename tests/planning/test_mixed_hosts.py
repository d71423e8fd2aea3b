"""Hosts of two kinds: the slowest makes the step, and shares by speed are said."""

from dataclasses import replace

import pytest

from planning.test_what_ifs import CALIBRATION, HOST, JOB, RUNS, TRAINING, WORK
from trainshed.planning.job_plan import plan_of
from trainshed.planning.layouts import HostType
from trainshed.planning.plan_request import PlanRequest
from trainshed.planning.plan_words import head, recommendations
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.fitting import calibrated

OTHER = replace(HOST, accelerator="NVIDIA_TESLA_P100")
MIXED = replace(JOB, mixed=((HOST, 1), (OTHER, 3)), others=(HostType(host=OTHER),))
SLOW = calibrated(TRAINING, OTHER, [replace(run, step_s=2 * run.step_s) for run in RUNS])


def plan_mixed(*calibrations):
    request = PlanRequest(what_if=[("gpus", (8,))])
    return plan_of(MIXED, request, calibrations, WORK, PriceList())


def test_all_hosts_wait_for_the_slowest():
    plan = plan_mixed(CALIBRATION, SLOW)
    own = plan.own
    alone = plan_of(
        replace(JOB, host_type=HostType(host=OTHER)), PlanRequest(), [SLOW], WORK, PriceList()
    )
    assert own.prediction.step_s == alone.own.prediction.step_s
    assert own.prediction.samples_per_s.point == pytest.approx(
        alone.own.prediction.samples_per_s.point
    )
    text = head(plan)
    assert "each step waits for n1-standard-32 with 8 NVIDIA_TESLA_P100" in text
    assert "102 on n1-standard-32 with 8 NVIDIA_TESLA_V100 and 51 on n1-standard-32" in text
    assert "would make it" not in text
    assert not any(" on 4 x 1 x " in line for line in recommendations(plan))


def test_a_kind_that_was_not_measured_is_named_with_what_to_equalise():
    answer = plan_mixed(CALIBRATION).own.answer
    assert "the training hosts differ" in answer.message
    assert "not NVIDIA_TESLA_P100 of n1-standard-32" in answer.message
    assert answer.accepted.endswith("equal hosts: one machine type and accelerator for all")
