"""When a study makes no further trials, why, and whether it has failed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.study import EndingRules, Goal, Metric, Safety, StudySpec, TimeLimit
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.ending import StudyEnding, ended, time_of

BEGAN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ACC = Metric(metric_id="acc")


def study(*, metrics=(ACC,), most=100, failed=0, **rules):
    return StudySpec(
        metrics=metrics,
        parameters=(),
        trial_count_max=most,
        trial_count_failed_max=failed,
        ending=EndingRules(**rules),
    )


def done(number, value, at=None, **more):
    """A trial that succeeded, by default ``number`` minutes after the beginning."""
    end = BEGAN + timedelta(minutes=number if at is None else at)
    final = Measurement(metrics=(("acc", value), *more.items()))
    return TrialRecord(number=number, state=TrialState.SUCCEEDED, final=final, end_time=end)


def failed(number, at=None, **more):
    end = BEGAN + timedelta(minutes=number if at is None else at)
    return TrialRecord(
        number=number,
        state=TrialState.INFEASIBLE,
        infeasible_reason=f"broken {number}",
        end_time=end,
        **more,
    )


def active(number):
    return TrialRecord(number=number)


def ending(spec, trials, *, began=BEGAN, after_s=0.0, exhausted=False):
    now = BEGAN + timedelta(seconds=after_s)
    return ended(spec, trials, began=began, now=now, exhausted=exhausted)


def test_a_study_goes_on():
    assert ending(study(), [done(1, 0.5), active(2)]) is None


def test_a_study_ends_with_its_trials_made_and_they_are_awaited():
    assert ending(study(most=2), [done(1, 0.5), active(2)]) == StudyEnding(
        reason="The study has made all of its 2 trials; the best is trial 1 with acc 0.5",
        resumes=True,
    )


def test_a_space_that_is_used_up_ends_the_study():
    assert ending(study(), [done(1, 0.5)], exhausted=True) == StudyEnding(
        reason="All points of the search space have been tried, in 1 trial; "
        "the best is trial 1 with acc 0.5",
        resumes=True,
    )


@pytest.mark.parametrize("exhausted", [False, True])
def test_a_study_without_a_success_has_failed_once_its_last_trial_has_ended(exhausted):
    spec = study(most=2, failed=9)
    assert not ending(spec, [failed(1), active(2)]).failed
    end = ending(spec, [failed(1), failed(2)], exhausted=exhausted)
    assert end.failed
    assert end.reason == (
        "No trial has succeeded. The study has made all of its 2 trials. "
        "The last one, trial 2: broken 2"
    )
    silent = replace(failed(2), infeasible_reason=None)
    assert ending(spec, [failed(1), silent]).reason.endswith("trial 2: It reported no reason")


def test_as_many_failures_as_the_study_says_fail_it():
    spec = study(failed=2)
    assert ending(spec, [done(1, 0.5), failed(2), active(3)]) is None
    assert ending(spec, [done(1, 0.5), failed(4), failed(2, at=9), active(5)]) == StudyEnding(
        reason="2 trials failed; the study allows fewer than 2. The last one, trial 2: broken 2",
        asap=True,
        failed=True,
    )


def test_the_first_three_to_end_may_not_all_fail():
    three = [failed(1), failed(2), failed(4)]
    assert ending(study(), three[:2]) is None
    assert ending(study(), [*three, active(3)]).reason == (
        "The first 3 trials to end have failed. The last one, trial 4: broken 4"
    )
    assert ending(study(), [*three, done(3, 0.5, at=0)]) is None
    assert ending(study(), [*three, done(3, 0.5, at=9)]).failed
    assert ending(study(failed=9), three) is None


@pytest.mark.parametrize(("count", "most", "fails"), [(3, 6, True), (3, 7, False), (2, 4, False)])
def test_half_of_the_trials_may_not_fail_and_three_are_the_least(count, most, fails):
    trials = [done(1, 0.5), *(failed(n) for n in range(2, count + 2))]
    end = ending(study(most=most), trials)
    assert (end is not None and end.failed) is fails


def test_a_trial_that_a_rule_has_stopped_has_not_failed():
    trials = [failed(n, stopped_early=True) for n in (1, 2, 3)]
    assert ending(study(), trials) is None
    assert ending(study(failed=1), trials) is None


LONG = TimeLimit(seconds=3600.0)


def test_a_study_ends_after_its_time():
    spec = study(runtime_max=LONG)
    assert ending(spec, [done(1, 0.5)], after_s=3599.0) is None
    assert ending(spec, [done(1, 0.5)], after_s=3600.0) == StudyEnding(
        reason="The study has reached its time limit: 3600 s"
    )
    assert ending(spec, [], began=None, after_s=9999.0) is None


def test_a_study_ends_at_a_date_in_any_zone():
    spec = study(runtime_max=TimeLimit(seconds=9999.0, until="2026-11-21T14:00:00.5+01:00"))
    assert ending(spec, [done(1, 0.5)], after_s=3600.0) is None
    assert ending(spec, [done(1, 0.5)], after_s=3601.0).reason == (
        "The study has reached its time limit: 9999 s or until 2026-11-21T14:00:00.5+01:00"
    )


def test_times_are_rfc_3339():
    expected = datetime(2026, 11, 21, 13, 0, 0, 123456, tzinfo=UTC)
    assert time_of("2026-11-21T13:00:00.123456789Z") == expected
    assert time_of("2026-11-21t14:00:00.123456+01:00") == expected
    assert time_of("2026-11-21T13:00:00.123456") == expected
    with pytest.raises(ValueError, match="tomorrow"):
        time_of("tomorrow")


def test_stopping_asap_is_for_rules_and_not_for_trials_that_fill_a_count():
    spec = study(stop_asap=True, runtime_max=LONG, trial_count_max=2)
    assert ending(spec, [done(1, 0.5), active(2)], after_s=3600.0).asap
    full = ending(spec, [done(1, 0.5), active(2)])
    assert full == StudyEnding(
        reason="The study has made all of its 2 trials; the best is trial 1 with acc 0.5",
        resumes=True,
    )


def test_trials_that_an_ending_has_stopped_do_not_fail_the_study():
    spec = study(stop_asap=True, runtime_max=LONG, failed=2)
    trials = [done(1, 0.5), failed(2), failed(3)]
    assert ending(spec, trials).failed
    end = ending(spec, trials, after_s=3600.0)
    assert end.asap
    assert not end.failed


@pytest.mark.parametrize(
    "blocks",
    [
        {"runtime_min": TimeLimit(seconds=7200.0)},
        {"runtime_min": TimeLimit(seconds=1.0, until="2026-11-21T14:00:00Z")},
        {"trial_count_min": 3},
    ],
)
def test_the_minimum_rules_block_the_others_but_not_the_count_of_the_job(blocks):
    every = {"runtime_max": LONG, "trial_count_max": 2, "trials_without_progress_max": 1}
    trials = [done(1, 0.9), done(2, 0.5)]
    assert ending(study(**every), trials, after_s=3600.0)
    assert ending(study(**every, **blocks), trials, after_s=3600.0) is None
    assert ending(study(**every, **blocks, most=2), trials, after_s=3600.0)


def test_the_rules_hold_once_the_minimum_is_reached():
    rules = {"trial_count_min": 2, "runtime_min": LONG, "trials_without_progress_max": 1}
    trials = [done(1, 0.9), failed(2), done(3, 0.5)]
    assert ending(study(**rules), trials, after_s=3600.0).reason == (
        "No better trial for 1 trial; the best is trial 1 with acc 0.9"
    )


def test_rules_are_asked_from_top_to_bottom():
    spec = study(runtime_max=LONG, trial_count_max=1, trials_without_progress_max=1)
    end = ending(spec, [done(1, 0.9), done(2, 0.5)], after_s=3600.0)
    assert end.reason == "The study has reached its time limit: 3600 s"


def test_no_better_trial_counts_trials_as_they_ended():
    spec = study(trials_without_progress_max=2)
    # the best is trial 4, which ended first; then come 1 and an equal one; a failed one counts not
    trials = [done(1, 0.5), failed(2), done(4, 0.93, at=0), active(5)]
    assert ending(spec, trials) is None
    assert ending(spec, [*trials, done(3, 0.93)]) == StudyEnding(
        reason="No better trial for 2 trials; the best is trial 3 with acc 0.93"
    )
    assert ending(spec, [*trials, done(3, 0.94)]) is None


def test_no_better_trial_goes_by_the_goal():
    down = (Metric(metric_id="acc", goal=Goal.MINIMIZE),)
    spec = study(metrics=down, trials_without_progress_max=1)
    assert ending(spec, [done(1, 0.5), done(2, 0.4)]) is None
    assert ending(spec, [done(1, 0.5), done(2, 0.6)])


def test_an_unsafe_trial_is_no_progress():
    limit = Metric(metric_id="memory", goal=Goal.MINIMIZE, safety=Safety(threshold=8.0))
    spec = study(metrics=(ACC, limit), trials_without_progress_max=1)
    assert ending(spec, [done(1, 0.5, memory=1.0), done(2, 0.9, memory=9.0)])
    assert ending(spec, [done(1, 0.5, memory=9.0)]).reason == "No better trial for 1 trial"


def test_no_better_time_begins_when_the_best_trial_ended():
    spec = study(seconds_without_progress_max=300.0)
    trials = [done(1, 0.5), done(2, 0.9), done(3, 0.8)]
    assert ending(spec, [active(1)], after_s=9999.0) is None
    assert ending(spec, trials, after_s=419.0) is None
    assert ending(spec, trials, after_s=420.0).reason == (
        "No better trial for 300 s; the best is trial 2 with acc 0.9"
    )


def test_progress_is_not_asked_of_several_objectives():
    two = (ACC, Metric(metric_id="loss"))
    spec = study(metrics=two, trials_without_progress_max=1, seconds_without_progress_max=1.0)
    trials = [done(1, 0.9, loss=1.0), done(2, 0.5, loss=0.5)]
    assert ending(spec, trials, after_s=9999.0) is None
    assert ending(replace(spec, trial_count_max=2), trials).reason == (
        "The study has made all of its 2 trials"
    )


kinds = st.sampled_from((lambda n: done(n, 0.1 * (n % 4)), failed, active))


@given(st.lists(kinds, max_size=12), st.integers(1, 12), st.randoms())
def test_the_order_of_trials_does_not_matter_and_no_study_outgrows_its_count(kinds, most, draw):
    trials = [kind(n) for n, kind in enumerate(kinds, start=1)]
    spec = study(most=most, trials_without_progress_max=4)
    end = ending(spec, trials)
    shuffled = list(trials)
    draw.shuffle(shuffled)
    assert ending(spec, shuffled) == end
    assert end or len(trials) < most
