"""Which trials successive halving pauses, resumes and ends: by hand, and whole studies."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.study import (
    Algorithm,
    AshaRule,
    EndingRules,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterSpec,
    StudySpec,
    TimeLimit,
)
from trainshed.model.trials import (
    TRIAL_PAUSED,
    TRIAL_RESUMED,
    TRIAL_STOPPED_EARLY,
    Measurement,
    TrialRecord,
    TrialState,
)
from trainshed.tuning.advance import advance
from trainshed.tuning.asha import pauses, promotions
from trainshed.tuning.stopping import to_stop
from trainshed.tuning.study_step import StudyContext, TrialSnapshot

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RULE = AshaRule(first_rung=3, pauses=True)
STEPS = 9


def study(rule=RULE, **more):
    fields = {
        "metrics": (Metric(metric_id="acc"),),
        "parameters": (
            ParameterSpec(parameter_id="x", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0)),
        ),
        "algorithm": Algorithm.RANDOM_SEARCH,
        "trial_count_max": 9,
        "trial_count_parallel": 3,
        "stopping": rule,
    }
    return StudySpec(**{**fields, **more})


def points(value, steps):
    return tuple(Measurement(step=at, metrics=(("acc", value),)) for at in range(1, steps + 1))


def trial(number, value, steps=3, state=TrialState.ACTIVE, **more):
    final = points(value, steps)[-1] if state is TrialState.SUCCEEDED else None
    values = (("x", number / 100),)
    measured = points(value, steps)
    fields = {"measurements": measured, "final": final, "start_time": NOW, **more}
    return TrialRecord(number=number, state=state, values=values, **fields)


def paused(number, value, steps=3):
    return trial(number, value, steps, TrialState.PAUSED, paused_at=steps)


def look(record, job=JobState.RUNNING, *, can_pause=True, is_held=None):
    """A trial with its job; the waiting job of a paused trial is held, if not said otherwise."""
    if is_held is None:
        is_held = record.state is TrialState.PAUSED and job is JobState.QUEUED
    reports = tuple(
        Report(tag="acc", value=one.metrics[0][1], step=one.step) for one in record.measurements
    )
    return TrialSnapshot(
        trial=record,
        job_state=job,
        job_is_held=is_held,
        job_start=NOW,
        reports=reports,
        can_pause=can_pause,
    )


def step(snapshots, spec=None, state=JobState.RUNNING, **more):
    context = StudyContext(now=NOW, began=NOW, seed=1, **more)
    return advance(spec or study(), state, snapshots, context)


def kinds(decision):
    return [(event.kind, event.data["trial"]) for event in decision.events if event.data]


def states(decision):
    return {one.number: one.state for one in decision.changed}


def test_only_a_trial_that_can_go_on_is_paused():
    best, other = look(trial(1, 3.0)), trial(2, 2.0)
    decision = step([best, look(other), look(trial(3, 1.0), can_pause=False)])
    assert states(decision) == {2: TrialState.PAUSED, 3: TrialState.STOPPING}
    assert kinds(decision) == [(TRIAL_PAUSED, 2), (TRIAL_STOPPED_EARLY, 3)]
    changed = {one.number: one for one in decision.changed}
    assert (changed[2].paused_at, changed[2].stopped_early, changed[2].final) == (3, False, None)
    assert decision.events[0].message.startswith("Trial 2 is paused. Its best acc at step 3, ")
    assert decision.new == (), "the job of the paused trial still has its place"


@pytest.mark.parametrize(
    "rule", [replace(RULE, pauses=False), replace(RULE, by_time=True), MedianRule(), None]
)
def test_other_rules_pause_no_trial(rule):
    assert not pauses(study(rule))
    assert promotions(study(rule), [paused(1, 1.0), trial(2, 0.5)]) == ()


def test_several_objectives_pause_no_trial():
    assert not pauses(study(metrics=(Metric(metric_id="acc"), Metric(metric_id="loss"))))


def test_worse_trials_that_arrive_make_a_paused_one_the_best_of_its_rung():
    rung = [trial(1, 9.0, 5), paused(2, 8.0), paused(3, 7.0), paused(4, 1.0), paused(5, 1.0)]
    assert promotions(study(), rung) == ()
    (second,) = promotions(study(), [*rung, trial(6, 2.0)])
    assert second.number == 2
    assert second.reason == (
        "Its best acc at step 3, rung 1 of 1, is 8, now rank 2 of 6 trials; the best 2 continue"
    )


def test_the_trial_with_the_most_steps_is_resumed_first():
    low = [trial(n, 0.0) for n in range(10, 19)]
    rung = [paused(1, 5.0), paused(2, 9.0, 9), trial(3, 4.0, 9), trial(4, 3.0, 9), *low]
    assert [one.number for one in promotions(study(), rung)] == [2, 1]


def test_a_trial_before_the_first_rung_is_judged_at_its_last_step():
    derived = study(AshaRule(pauses=True))
    done = trial(1, 9.0, 81, TrialState.SUCCEEDED)  # the rungs are at 9 and 27
    early = [paused(2, 5.0), trial(3, 4.0, 4), trial(4, 3.0, 4)]
    assert promotions(derived, [done, *early]) == ()
    (second,) = promotions(derived, [done, *early, *(trial(n, 1.0) for n in (5, 6))])
    assert second.number == 2
    assert second.reason == (
        "Its best acc at step 3 is 5, now rank 2 of 6 trials; the best 2 continue"
    )


def test_a_resumed_trial_is_judged_at_later_rungs_only():
    better = [trial(n, 9.0 - n) for n in (1, 2)]
    resumed = trial(3, 1.0, 4, paused_at=4)
    assert 3 in to_stop(study(), [*better, replace(resumed, paused_at=None)])
    assert 3 not in to_stop(study(), [*better, resumed])
    further = [trial(n, 9.0 - n, 9) for n in (1, 2)]
    assert 3 in to_stop(study(), [*further, trial(3, 1.0, 9, paused_at=4)])


def test_paused_trials_count_among_those_that_may_be_stopped_before_an_end():
    derived = study(AshaRule(pauses=True))
    running = [trial(n, float(n)) for n in (1, 2, 3)]
    assert to_stop(derived, [*running, paused(4, 0.0), paused(5, 0.0)])
    assert to_stop(derived, [*running, *(paused(n, 0.0) for n in (4, 5, 6))]) == {}


def test_a_paused_trial_is_resumed_before_a_new_point_is_tried():
    jobs = [
        look(trial(1, 9.0, 5)),
        look(paused(2, 8.0), JobState.QUEUED),
        *(
            look(trial(n, 1.0, state=TrialState.SUCCEEDED, stopped_early=True), JobState.CANCELLED)
            for n in (3, 4, 5, 6)
        ),
    ]
    decision = step(jobs)
    assert kinds(decision)[0] == (TRIAL_RESUMED, 2)
    assert states(decision) == {2: TrialState.ACTIVE}
    assert decision.changed[0].paused_at == 3
    assert len(decision.new) == 1, "three places: one runs, one is resumed, one is new"


def test_a_job_that_ends_to_be_paused_keeps_its_place():
    others = [look(trial(1, 9.0, 5)), look(trial(2, 8.0, 5, paused_at=5))]
    for job in (JobState.RUNNING, JobState.RESTARTING):
        assert step([*others, look(paused(3, 1.0), job)]).new == ()
    assert len(step([*others, look(paused(3, 1.0), JobState.QUEUED)]).new) == 1


def test_a_job_that_waits_and_is_not_held_yet_keeps_its_place():
    """The scheduler may still start it, before the server holds it."""
    others = [look(trial(1, 9.0, 5)), look(trial(2, 8.0, 5, paused_at=5))]
    decision = step([*others, look(trial(3, 1.0), JobState.QUEUED)])
    assert states(decision) == {3: TrialState.PAUSED}
    assert decision.new == ()
    assert step([*others, look(paused(3, 1.0), JobState.QUEUED, is_held=False)]).new == ()


def test_a_held_job_whose_reports_cannot_be_read_uses_no_place():
    """Until then its state is unknown, and the study takes it for RUNNING."""
    better = (look(trial(n, 9.0 - n, 9, paused_at=9)) for n in (1, 2, 3))
    unread = look(paused(4, 8.5), JobState.RUNNING, is_held=True)
    worse = (look(paused(n, 1.0), JobState.QUEUED) for n in (5, 6, 7))
    assert states(step([*better, unread, *worse])) == {}


def all_made(*first):
    rest = (
        look(trial(n, 0.0, state=TrialState.SUCCEEDED, stopped_early=True), JobState.CANCELLED)
        for n in range(len(first) + 1, 10)
    )
    return [*first, *rest]


def test_at_the_end_a_paused_trial_ends_as_one_that_was_stopped():
    done = look(trial(1, 9.0, 9, TrialState.SUCCEEDED), JobState.SUCCEEDED)
    best = [
        done,
        look(trial(2, 8.0, 9, TrialState.SUCCEEDED), JobState.SUCCEEDED),
        look(trial(3, 7.0, 9, TrialState.SUCCEEDED), JobState.SUCCEEDED),
    ]
    last = look(paused(4, 5.0), JobState.QUEUED)
    decision = step(all_made(*best, last))
    assert (decision.state, states(decision)) == (JobState.RUNNING, {4: TrialState.STOPPING})
    assert decision.changed[0].stopped_early
    assert kinds(decision) == [(TRIAL_STOPPED_EARLY, 4)]
    ended = replace(last, trial=decision.changed[0], job_state=JobState.CANCELLED)
    final = step(all_made(*best, ended))
    assert final.state is JobState.SUCCEEDED
    (result,) = final.changed
    assert (result.state, result.stopped_early) == (TrialState.SUCCEEDED, True)
    assert result.final.value("acc") == 5.0


def test_a_paused_trial_waits_while_a_running_one_may_still_make_it_the_best():
    jobs = all_made(look(trial(1, 9.0, 1)), look(paused(2, 8.0), JobState.QUEUED))
    far = [replace(one, trial=replace(one.trial, measurements=points(9.5, 3))) for one in jobs[2:]]
    decision = step([*jobs[:2], *far])
    assert decision.state is JobState.RUNNING
    assert states(decision) == {}


def test_all_trials_are_made_and_the_best_paused_one_is_still_resumed():
    jobs = all_made(look(paused(1, 9.0), JobState.QUEUED))
    assert states(step(jobs)) == {1: TrialState.ACTIVE}


def test_a_time_limit_ends_a_study_without_resuming_trials():
    rules = EndingRules(runtime_max=TimeLimit(seconds=10.0))
    context = StudyContext(now=NOW + timedelta(seconds=60), began=NOW, seed=1)
    jobs = all_made(look(paused(1, 9.0), JobState.QUEUED))
    decision = advance(study(ending=rules), JobState.RUNNING, jobs, context)
    assert states(decision) == {1: TrialState.STOPPING}


def test_a_cancelled_study_ends_its_paused_trials_with_results():
    jobs = [look(trial(1, 9.0)), look(paused(2, 5.0), JobState.QUEUED)]
    decision = step(jobs, state=JobState.CANCELLING)
    assert states(decision) == {1: TrialState.STOPPING, 2: TrialState.STOPPING}
    assert [one.stopped_early for one in decision.changed] == [False, True]
    assert decision.state is JobState.CANCELLING


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (JobState.SUCCEEDED, TrialState.SUCCEEDED),
        (JobState.FAILED, TrialState.INFEASIBLE),
        (JobState.CANCELLED, TrialState.INFEASIBLE),
    ],
)
def test_the_end_of_its_job_ends_a_paused_trial(job, state):
    decision = step([look(trial(1, 9.0)), look(paused(2, 5.0), job)])
    changed = {one.number: one for one in decision.changed}
    assert (changed[2].state, changed[2].stopped_early) == (state, False)


def test_failed_rivals_leave_the_rung_and_a_paused_trial_goes_on():
    failed = look(trial(1, 9.0, state=TrialState.INFEASIBLE), JobState.FAILED)
    decision = step([failed, look(paused(2, 5.0), JobState.QUEUED)])
    assert states(decision) == {2: TrialState.ACTIVE}


def test_the_search_learns_from_a_paused_trial_as_from_a_stopped_one():
    spec = study(algorithm=Algorithm.DEFAULT, trial_count_max=40, search_rule=2)
    ended = [
        look(trial(n, float(n % 7), 9, TrialState.SUCCEEDED), JobState.SUCCEEDED)
        for n in range(1, 8)
    ]
    waits = [*ended, look(paused(8, 3.5), JobState.QUEUED)]
    stopped = replace(
        waits[-1].trial, state=TrialState.SUCCEEDED, stopped_early=True, final=points(3.5, 3)[-1]
    )
    ends = [*ended, look(stopped, JobState.CANCELLED)]
    ours, theirs = (step(jobs, spec, has_news=False).new for jobs in (waits, ends))
    assert [one.values for one in ours] == [one.values for one in theirs]


def test_without_news_no_trial_is_resumed_while_others_run():
    jobs = all_made(look(trial(1, 9.0, 4)), look(paused(2, 8.0), JobState.QUEUED))
    assert states(step(jobs, has_news=False)) == {}
    assert states(step(jobs)) == {2: TrialState.ACTIVE}


@settings(max_examples=30)
@given(st.permutations(range(9)), st.integers(1, 4), st.booleans())
def test_every_study_ends_and_the_best_third_of_each_rung_has_passed_it(order, parallel, delays):
    """A whole study, a step of each trial at a time; a job may take a step to be paused."""
    spec = study(trial_count_parallel=parallel)
    jobs, records, counts = {}, {}, {}
    for _ in range(400):
        snapshots = [look(records[n], jobs[n]) for n in sorted(records)]
        decision = step(snapshots, spec)
        for one in (*decision.changed, *decision.new):
            records[one.number] = one
            jobs.setdefault(one.number, JobState.RUNNING)
        running = [n for n, one in records.items() if one.state is TrialState.ACTIVE]
        assert len(running) <= parallel
        if decision.state.is_final:
            break
        for number, one in records.items():
            jobs[number] = _follow(one, jobs[number], delays=delays)
            if one.state is TrialState.ACTIVE:
                counts[number] = counts.get(number, 0) + 1
                value = float(order[number - 1])
                records[number] = replace(one, measurements=points(value, counts[number]))
                if counts[number] == STEPS:
                    jobs[number] = JobState.SUCCEEDED
    assert decision.state is JobState.SUCCEEDED
    assert all(one.state is TrialState.SUCCEEDED for one in records.values())
    best = sorted(records.values(), key=lambda one: -one.final.value("acc"))[:3]
    assert all(one.final.step > 3 for one in best)
    assert best[0].final.step == STEPS


def _follow(one, job, *, delays):
    """Return the next state of a trial's job."""
    if job.is_final:
        return job
    if one.state is TrialState.STOPPING:
        return JobState.CANCELLED
    if one.state is TrialState.PAUSED:
        is_slow = delays and job is JobState.RUNNING
        return JobState.RESTARTING if is_slow else JobState.QUEUED
    return JobState.RUNNING
