"""What is worth a word before a job runs, and what is not."""

from dataclasses import replace

import pytest

from planning.test_what_ifs import CALIBRATION, HOST, JOB, RUNS, TRAINING
from trainshed.planning.layouts import HostType
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.fitting import calibrated
from trainshed.planning.submit_note import submit_note

PRICES = PriceList(region="us-central1")
SLOW = replace(RUNS[2], step_s=1.2)
#: Twenty times the gradients: links between hosts decide.
HEAVY = calibrated(replace(TRAINING, parameters=5e8, gradient_bytes=2e9), HOST, (*RUNS[:2], SLOW))


def note(calibration=CALIBRATION, **job):
    return submit_note(calibration, replace(JOB, **job), PRICES)


def test_a_job_that_is_well_is_not_worth_a_word():
    assert note(hosts=2) is None


def test_too_few_would_be_no_question_and_no_host_none():
    assert note(hosts=0) is None
    assert note(hosts=1_000_000) is None, "what the planner refuses it does not comment"


def test_little_efficiency_is_said_with_what_would_help():
    hint = note(HEAVY, hosts=8)
    assert hint.message.startswith("64 GPUs: ")
    assert "% efficiency." in hint.message
    assert "reducers would make it" in hint.message
    assert hint.numbers["efficiency"][1] < 0.5


def test_that_fewer_would_do_is_said_once():
    hint = note(HEAVY, hosts=4)
    assert hint.message.count("8 GPUs would") == 1
    assert "times less" in hint.message


def test_of_a_job_with_reducers_they_are_not_said_again():
    hint = note(HEAVY, hosts=8, reducers=replace(JOB.reducers, count=2))
    assert "would make it" not in hint.message


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_input_is_named_from_a_tenth_of_a_step_on(share):
    waits = replace(RUNS[-1], wait_share=share)
    hint = note(replace(CALIBRATION, runs=(*RUNS[:-1], waits)), hosts=2)
    assert (hint is not None) == (share > 0.1)
    if hint:
        assert "30 % of time" in hint.message
        assert "loader workers" in hint.message
        assert hint.numbers["cheaper_accelerators"] is None


def test_where_no_price_is_known_accelerator_hours_are_compared():
    unknown = replace(JOB.host, machine_type="own")
    calibration = replace(HEAVY, host=replace(HEAVY.host, machine_type="own"))
    hint = note(calibration, hosts=8, host_type=HostType(host=unknown))
    assert "accelerator-hours" in hint.message
