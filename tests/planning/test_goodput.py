"""The division of a job's time into buckets, and its goodput."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.planning.goodput import (
    HELD_BUCKETS,
    AttemptTimes,
    JobTimes,
    attempt_goodputs,
    gpu_seconds,
    job_goodput,
    study_goodput,
)

FIRST = AttemptTimes(
    attempt=1,
    placed_s=60,
    running_s=90,
    ended_s=3720,
    first_step=0,
    first_step_s=120,
    last_step=1200,
    last_step_s=3720,
    step_s=3.0,
    checkpoint_step=1000,
    has_failed=True,
    gpus=8,
)
SECOND = AttemptTimes(
    attempt=2,
    placed_s=3780,
    running_s=3800,
    ended_s=10860,
    first_step=1000,
    first_step_s=3840,
    last_step=3340,
    last_step_s=10860,
    step_s=3.0,
    gpus=8,
)
EXAMPLE = JobTimes(accepted_s=0, ended_s=10860, attempts=(FIRST, SECOND))
SILENT = AttemptTimes(attempt=1, placed_s=0, running_s=30, ended_s=1000, gpus=2)


def job(*attempts, ended_s=10860):
    return JobTimes(accepted_s=0, ended_s=ended_s, attempts=attempts)


def buckets(goodput):
    return {name: value for name, value in goodput.seconds.items() if value}


def test_the_worked_example_is_right_to_the_second():
    goodput = job_goodput(EXAMPLE, 99999)
    assert buckets(goodput) == {
        "wall": 10860,
        "first_wait": 60,
        "other_waits": 60,
        "held": 10740,
        "starting": 120,
        "lost": 600,
        "productive": 10020,
    }
    ratios = (goodput.ratio, goodput.scheduling, goodput.ettr)
    assert [f"{100 * ratio:.1f}" for ratio in ratios] == ["93.3", "98.9", "92.3"]
    assert goodput.at_most is None
    assert goodput.words == "Goodput 93.3 % of 3.0 h: starting 2.0 min, lost 10.0 min."
    assert gpu_seconds(EXAMPLE, 0).productive_s == 8 * 10020


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"first_step": None, "first_step_s": None}, 600),  # the checkpoint of the attempt before
        ({"first_step": 0}, 3600),  # started over
        ({"first_step": 1200}, 0),
        ({"first_step": 10**15}, 0),  # skipped steps
    ],
)
def test_steps_are_lost_from_where_the_next_attempt_went_on(change, lost):
    second = replace(SECOND, **change)
    assert attempt_goodputs(job(FIRST, second), 0)[0].lost_s == lost


def test_steps_that_a_later_attempt_repeats_are_lost_even_if_the_next_one_kept_them():
    third = replace(SECOND, attempt=3, placed_s=10860, first_step=500, first_step_s=10860)
    second = replace(SECOND, last_step=1340, last_step_s=4860, ended_s=4860)
    goodputs = attempt_goodputs(job(FIRST, second, third), 0)
    assert [goodput.lost_s for goodput in goodputs] == [2100, 1020, 0]


def test_without_a_later_step_or_checkpoint_all_steps_are_lost_once_the_job_has_ended():
    first = replace(FIRST, checkpoint_step=None)
    second = replace(SECOND, first_step=None, first_step_s=None)
    assert attempt_goodputs(job(first, second), 0)[0].lost_s == 3600
    going_on = attempt_goodputs(job(first, replace(second, ended_s=None), ended_s=None), 4000)[0]
    assert (going_on.ratio, round(going_on.at_most, 3)) == (None, 0.984)


def test_a_job_that_reports_no_steps_gets_a_bound():
    goodput = job_goodput(job(SILENT, ended_s=1000), 0)
    assert (goodput.ratio, goodput.at_most, goodput.ettr) == (None, 0.97, None)
    assert goodput.words == (
        "Goodput at most 97.0 % of 16.7 min: starting 30.0 s; the job reports no steps: call "
        "trainshed_trainer.progress(step) after each step."
    )


def test_an_attempt_that_never_ran_only_started():
    goodput = job_goodput(job(replace(SILENT, running_s=None), ended_s=1000), 0)
    assert (goodput.ratio, goodput.starting_s) == (0.0, 1000)


def test_a_job_without_an_attempt_has_no_goodput():
    goodput = job_goodput(job(ended_s=None), 50)
    assert (goodput.ratio, goodput.at_most, goodput.scheduling) == (None, None, 0)
    assert buckets(goodput) == {"wall": 50, "first_wait": 50}
    assert goodput.words == "Goodput is not known: the job has not held machines yet."


def test_an_attempt_that_was_killed_before_its_first_step_was_starting():
    killed = replace(SILENT, attempt=2, placed_s=3720, running_s=3730, ended_s=3780)
    goodputs = attempt_goodputs(job(FIRST, killed, replace(SECOND, attempt=3)), 0)
    assert [goodput.starting_s for goodput in goodputs] == [60, 60, 60]
    assert goodputs[0].lost_s == 600


def test_steps_that_an_attempt_made_and_did_not_report_make_a_bound():
    silent = replace(SILENT, placed_s=60, ended_s=3720)
    goodput = attempt_goodputs(job(silent, SECOND), 0)[0]
    assert goodput.is_bound


def test_steps_without_numbers_have_a_goodput_if_nothing_had_to_be_repeated():
    first = replace(FIRST, first_step=None, last_step=None, has_failed=False)
    assert job_goodput(job(first, ended_s=3720), 0).ratio == 3600 / 3660
    goodput = job_goodput(job(first, replace(SECOND, first_step=None, last_step=None)), 0)
    assert (goodput.ratio, goodput.lost_s) == (None, 0)
    assert "; no later attempt has reported its first step so far; call" in goodput.words
    never = replace(SECOND, first_step=None, first_step_s=None)
    assert job_goodput(job(first, never), 0).lost_s == 3600


def test_the_time_after_a_notice_is_stopping():
    first = replace(FIRST, stop_s=3700, has_failed=False, last_step=1194, last_step_s=3702)
    second = replace(SECOND, first_step=1194)
    goodput = attempt_goodputs(job(first, second), 0)[0]
    assert (goodput.stopping_s, goodput.lost_s, goodput.productive_s) == (20, 0, 3580)


def test_time_after_the_last_step_of_a_failed_attempt_is_lost_and_of_others_productive():
    failed = replace(FIRST, ended_s=5000)
    assert job_goodput(job(failed, ended_s=5000), 0).lost_s == 1280
    succeeded = replace(failed, has_failed=False)
    assert job_goodput(job(succeeded, ended_s=5000), 0).lost_s == 0


def test_a_hang_and_slow_steps_are_stalled_once():
    hung = replace(FIRST, hangs=((3000, 3100), (3050, 3200)), stalled_s=180.0)
    assert attempt_goodputs(job(hung, SECOND), 0)[0].stalled_s == 200
    after = replace(FIRST, ended_s=5000, hangs=((3720, 6000),), stalled_s=180.0)
    goodput = attempt_goodputs(job(after, ended_s=5000), 0)[0]
    assert (goodput.stalled_s, goodput.lost_s) == (1460, 0)
    silent = replace(SILENT, hangs=((0, 100),))
    assert attempt_goodputs(job(silent, ended_s=1000), 0)[0].stalled_s == 70


def test_saving_is_a_bucket_if_the_trainer_reports_it():
    saving = replace(SECOND, saving_s=300.0)
    assert attempt_goodputs(job(FIRST, saving), 0)[1].saving_s == 300


def test_a_study_is_weighted_with_gpus():
    small = JobTimes(accepted_s=0, ended_s=1000, attempts=(replace(FIRST, gpus=1),))
    goodput = study_goodput([EXAMPLE, small], 0)
    assert goodput.held_s == 8 * 10740 + 3660
    cpus = [replace(one, attempts=(replace(one.attempts[0], gpus=0),)) for one in (small, small)]
    assert study_goodput(cpus, 0).held_s == 2 * 3660
    assert study_goodput([], 0).ratio is None


def test_steps_share_the_time_if_their_own_is_unknown():
    first = replace(FIRST, step_s=None)
    assert attempt_goodputs(job(first, SECOND), 0)[0].lost_s == 600
    once = replace(first, first_step=1200)
    assert attempt_goodputs(job(once, SECOND), 0)[0].lost_s == 3600


TIMES = st.floats(0, 1e6)
MAYBE = st.none() | TIMES
STEPS = st.none() | st.integers(0, 10**15)
ATTEMPTS = st.builds(
    AttemptTimes,
    attempt=st.just(1),
    placed_s=TIMES,
    running_s=MAYBE,
    ended_s=MAYBE,
    first_step=STEPS,
    first_step_s=MAYBE,
    last_step=STEPS,
    last_step_s=MAYBE,
    step_s=st.none() | st.floats(0, 1e15),
    checkpoint_step=STEPS,
    stalled_s=st.floats(0, 1e15),
    hangs=st.lists(st.tuples(TIMES, TIMES), max_size=3).map(tuple),
    saving_s=st.none() | st.floats(0, 1e15),
    stop_s=MAYBE,
    has_failed=st.booleans(),
    gpus=st.integers(0, 64),
)
JOBS = st.builds(
    JobTimes,
    accepted_s=TIMES,
    ended_s=MAYBE,
    attempts=st.lists(ATTEMPTS, max_size=4).map(tuple),
)


@given(times=JOBS, now_s=TIMES)
def test_the_buckets_of_any_attempts_are_their_held_time(times, now_s):
    goodputs = [*attempt_goodputs(times, now_s), job_goodput(times, now_s)]
    for goodput in [*goodputs, gpu_seconds(times, now_s), study_goodput([times], now_s)]:
        seconds = goodput.seconds
        assert all(value >= 0 for value in seconds.values())
        held_s = sum(seconds[name] for name in HELD_BUCKETS)
        assert math.isclose(held_s, goodput.held_s, abs_tol=1e-6)
        assert goodput.ratio is None or goodput.at_most is None
        assert 0 <= (goodput.ratio or goodput.at_most or 0) <= 1
        assert goodput.words
    total = job_goodput(times, now_s)
    parts = total.first_wait_s + total.other_waits_s + total.held_s
    assert math.isclose(parts, total.wall_s, abs_tol=1e-6)
