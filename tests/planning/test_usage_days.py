"""Every second of a held GPU has one day and one use, whatever happened to its job."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.time_use import HELD_USES
from trainshed.planning.goodput import AttemptTimes, JobTimes, attempt_goodputs
from trainshed.planning.usage_days import (
    DAY_S,
    GpuMeasurement,
    day_number,
    day_of,
    day_text,
    day_uses,
)

DAY = 20_000
MIDNIGHT = DAY * DAY_S


def uses(times, measured=(), now_s=None, **job):
    end_s = now_s or times.ended_s
    whole = JobTimes(accepted_s=times.placed_s, attempts=(times,), **job)
    [goodput] = attempt_goodputs(whole, end_s)
    return day_uses(times, goodput, measured)


def attempt(**fields):
    """One that starts an hour before midnight, steps from 10 minutes later on, and ends at 3."""
    steps = {"first_step": 1, "last_step": 100}
    begin = {"placed_s": MIDNIGHT - 3600, "first_step_s": MIDNIGHT - 3000}
    end = {"last_step_s": MIDNIGHT + 3 * 3600, "ended_s": MIDNIGHT + 3 * 3600}
    return AttemptTimes(**{"attempt": 1, **steps, **begin, **end, **fields})


def test_each_day_has_its_own_time():
    first, second = uses(attempt(), ended_s=MIDNIGHT + 3 * 3600)
    assert (first.day, first.seconds) == (DAY - 1, {"starting": 600.0, "productive": 3000.0})
    assert (second.day, second.seconds) == (DAY, {"productive": 10_800.0})
    assert (first.energy_j, second.energy_j) == (None, None)


def test_a_job_that_reports_no_steps_has_unknown_time():
    silent = attempt(first_step=None, first_step_s=None, last_step=None, last_step_s=None,
                     running_s=MIDNIGHT - 3000)  # fmt: skip
    first, second = uses(silent, ended_s=MIDNIGHT + 3 * 3600)
    assert first.seconds == {"starting": 600.0, "unknown": 3000.0}
    assert second.seconds == {"unknown": 10_800.0}


def test_the_time_before_a_failure_is_lost_and_a_stop_comes_last():
    stopped = attempt(stop_s=MIDNIGHT + 3 * 3600 - 60, last_step=100)
    job = {"accepted_s": 0.0, "ended_s": MIDNIGHT + 9 * 3600}
    again = AttemptTimes(attempt=2, placed_s=MIDNIGHT + 4 * 3600, ended_s=MIDNIGHT + 9 * 3600,
                         first_step=81, last_step=200, first_step_s=MIDNIGHT + 5 * 3600,
                         last_step_s=MIDNIGHT + 9 * 3600)  # fmt: skip
    goodput, _ = attempt_goodputs(JobTimes(attempts=(stopped, again), **job), job["ended_s"])
    first, second = day_uses(stopped, goodput)
    assert goodput.lost_s > 0
    assert first.seconds.keys() == {"starting", "productive"}
    assert second.seconds["stopping"] == 60.0
    assert second.seconds["lost"] == pytest.approx(goodput.lost_s)


def test_idle_time_is_that_of_its_day():
    night = GpuMeasurement(begin_s=MIDNIGHT, end_s=MIDNIGHT + 3600, idle_s=1800.0, energy_j=100.0)
    across = GpuMeasurement(begin_s=MIDNIGHT - 60, end_s=MIDNIGHT + 60, energy_j=20.0)
    first, second = uses(attempt(), [night, across], ended_s=MIDNIGHT + 3 * 3600)
    assert first.seconds == {"starting": 600.0, "productive": 3000.0}
    assert second.seconds == {"productive": 9000.0, "idle": 1800.0}
    assert (first.energy_j, second.energy_j) == (10.0, 110.0)


def test_a_gpu_that_starts_is_not_idle_too():
    starting = GpuMeasurement(begin_s=MIDNIGHT - 3600, end_s=MIDNIGHT - 3000, idle_s=600.0)
    [first, _] = uses(attempt(), [starting], ended_s=MIDNIGHT + 3 * 3600)
    assert "idle" not in first.seconds


HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("idle_hours", "stalled_s", "idle_s"),
    [
        ((), HOUR_S, 0.0),  # busy, or not measured
        ((4,), 0.0, HOUR_S),  # idle in the hang alone
        ((3, 4), 0.0, 2 * HOUR_S),  # and before it was reported
        ((3,), HOUR_S, HOUR_S),  # busy in the hang, as a collective operation that waits
    ],
)
def test_a_report_of_a_hang_does_not_reduce_the_idle_time(idle_hours, stalled_s, idle_s):
    """The job makes its last step at 4 o'clock; at 5 it is over, and had hung for an hour."""
    begin_s, end_s = MIDNIGHT + HOUR_S, MIDNIGHT + 5 * HOUR_S
    times = {"placed_s": begin_s, "first_step_s": begin_s, "last_step_s": end_s - HOUR_S}
    measured = [
        GpuMeasurement(begin_s=MIDNIGHT + hour * HOUR_S, end_s=MIDNIGHT + (hour + 1) * HOUR_S,
                       idle_s=HOUR_S)
        for hour in idle_hours
    ]  # fmt: skip
    reported = attempt(**times, ended_s=end_s, hangs=((end_s - HOUR_S, end_s),))
    [day] = uses(reported, measured, ended_s=end_s)
    assert day.seconds.get("stalled", 0.0) == pytest.approx(stalled_s)
    assert day.seconds.get("idle", 0.0) == pytest.approx(idle_s)
    [unreported] = uses(attempt(**times, ended_s=end_s), measured, ended_s=end_s)
    assert unreported.seconds.get("idle", 0.0) == pytest.approx(idle_s)
    assert sum(day.seconds.values()) == pytest.approx(sum(unreported.seconds.values()))


def test_idle_time_of_slow_steps_and_hangs_is_not_counted_twice():
    begin_s, end_s = MIDNIGHT, MIDNIGHT + 4 * HOUR_S
    times = {"placed_s": begin_s, "first_step_s": begin_s, "last_step_s": end_s, "ended_s": end_s}
    hung = attempt(**times, hangs=((begin_s, begin_s + HOUR_S),), stalled_s=2 * HOUR_S)
    quarter = GpuMeasurement(begin_s=begin_s, end_s=end_s, idle_s=HOUR_S)
    [day] = uses(hung, [quarter], ended_s=end_s)
    assert day.seconds["idle"] == pytest.approx(HOUR_S / 4), "that of the hang"
    assert day.seconds["stalled"] == pytest.approx(2 * HOUR_S - HOUR_S / 4)


def test_an_attempt_that_never_ran_has_no_time():
    assert uses(attempt(ended_s=MIDNIGHT - 3600), now_s=MIDNIGHT - 3600) == ()
    assert uses(attempt(ended_s=MIDNIGHT - 9999), now_s=MIDNIGHT - 3600) == (), "a clock was set"


def test_days_are_those_of_utc():
    assert day_text(DAY) == "2024-10-04"
    assert day_number(date(2024, 10, 4)) == day_of(MIDNIGHT) == day_of(MIDNIGHT + DAY_S - 1) == DAY
    assert day_text(-5) == "1970-01-01"
    assert day_text(10**9) == "9999-12-31"


SECONDS = st.floats(0, 4 * DAY_S)


@given(
    ends=st.lists(SECONDS, min_size=1, max_size=4),
    steps=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 99), SECONDS, SECONDS),
    stop=st.none() | SECONDS,
    stalled=SECONDS,
    saving=st.none() | SECONDS,
    hang=st.tuples(SECONDS, SECONDS),
    idle=st.lists(st.tuples(SECONDS, st.floats(1, DAY_S), st.floats(0, 1)), max_size=4),
)
def test_every_second_is_in_one_bucket(ends, steps, stop, stalled, saving, hang, idle):  # noqa: PLR0913, PLR0917
    attempts, begin_s = [], MIDNIGHT
    for number, length_s in enumerate(ends, 1):
        first, count, first_s, last_s = steps or (None, 0, 0.0, 0.0)
        attempts.append(AttemptTimes(
            attempt=number, placed_s=begin_s, ended_s=begin_s + length_s,
            first_step=first, last_step=None if first is None else first + count,
            first_step_s=None if first is None else begin_s + first_s,
            last_step_s=None if first is None else begin_s + first_s + last_s,
            stop_s=None if stop is None else begin_s + stop, stalled_s=stalled, saving_s=saving,
            hangs=((begin_s + hang[0], begin_s + hang[0] + hang[1]),), running_s=begin_s + 5,
        ))  # fmt: skip
        begin_s += length_s
    job = JobTimes(accepted_s=MIDNIGHT, ended_s=begin_s, attempts=tuple(attempts))
    measured = [GpuMeasurement(begin_s=MIDNIGHT + at_s, end_s=MIDNIGHT + at_s + length_s,
                            idle_s=share * length_s) for at_s, length_s, share in idle]  # fmt: skip
    total_s = 0.0
    for times, goodput in zip(attempts, attempt_goodputs(job, begin_s), strict=True):
        days = day_uses(times, goodput, measured)
        assert all(use.seconds.keys() <= set(HELD_USES) for use in days)
        assert all(used_s >= 0 for use in days for used_s in use.seconds.values())
        assert all(sum(use.seconds.values()) <= DAY_S + 1e-3 for use in days)
        held_s = sum(used_s for use in days for used_s in use.seconds.values())
        assert held_s == pytest.approx(goodput.held_s, abs=1e-3)
        total_s += held_s
    assert total_s == pytest.approx(begin_s - MIDNIGHT, abs=1e-2)
