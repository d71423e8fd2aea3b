"""The next step of a study, from how its trials stand."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.study import (
    EndingRules,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterSpec,
    StudySpec,
)
from trainshed.model.trials import Measurement, TrialRecord, TrialState
from trainshed.tuning.advance import advance
from trainshed.tuning.study_step import StudyContext, TrialSnapshot

NOW = datetime(2026, 11, 21, tzinfo=UTC)
STUDY = StudySpec(
    metrics=(Metric(metric_id="acc"),),
    parameters=(ParameterSpec(parameter_id="x", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0)),),
    trial_count_max=4,
    trial_count_parallel=2,
    stopping=MedianRule(),
)


def measured(value):
    return tuple(Measurement(step=step, metrics=(("acc", value),)) for step in (1, 2, 3))


def ended(number, value):
    trial = TrialRecord(
        number=number,
        state=TrialState.SUCCEEDED,
        values=(("x", number / 10),),
        measurements=measured(value),
        final=measured(value)[-1],
        start_time=NOW,
        end_time=NOW,
    )
    return TrialSnapshot(trial=trial, job_state=JobState.SUCCEEDED, job_start=NOW, job_end=NOW)


def running(number, value):
    trial = TrialRecord(
        number=number, values=(("x", number / 10),), measurements=measured(value), start_time=NOW
    )
    return TrialSnapshot(trial=trial, job_state=JobState.RUNNING, job_start=NOW)


def test_the_last_trials_of_a_study_are_stopped_early_as_all_others():
    snapshots = [ended(1, 0.9), ended(2, 0.8), ended(3, 0.7), running(4, 0.1)]
    step = advance(STUDY, JobState.RUNNING, snapshots, StudyContext(now=NOW, began=NOW, seed=1))
    (changed,) = step.changed
    assert (changed.number, changed.state) == (4, TrialState.STOPPING)
    assert changed.stopped_early
    (event,) = step.events
    assert (event.kind, event.data["trial"], event.data["rule"]) == (
        "TRIAL_STOPPED_EARLY",
        4,
        "median",
    )
    assert event.message == f"Trial 4 is stopped early. {event.data['reason']}."
    assert json.dumps(event.data), "the store writes it as JSON"
    assert (step.state, step.new) == (JobState.RUNNING, ())


def stopped_with_its_study(number, job_state, value):
    """A trial whose study had decided to end, as its job came to its end."""
    snapshot = running(number, value)
    reports = [Report(tag="acc", value=m.value("acc"), step=m.step) for m in measured(value)]
    return replace(
        snapshot,
        trial=replace(snapshot.trial, state=TrialState.STOPPING),
        job_state=job_state,
        job_end=NOW,
        reports=tuple(reports),
    )


@pytest.mark.parametrize("trial_count_max", [5, 50])
def test_a_study_that_has_stopped_its_trials_is_over_although_one_brings_progress(trial_count_max):
    rules = EndingRules(stop_asap=True, trials_without_progress_max=2)
    spec = replace(STUDY, stopping=None, ending=rules, trial_count_max=trial_count_max)
    snapshots = [
        *(ended(1, 0.5), ended(2, 0.4), ended(3, 0.4)),
        stopped_with_its_study(4, JobState.CANCELLED, 0.1),
        stopped_with_its_study(5, JobState.SUCCEEDED, 0.9),
    ]
    step = advance(spec, JobState.RUNNING, snapshots, StudyContext(now=NOW, began=NOW, seed=1))
    assert (step.state, step.new, step.error) == (JobState.SUCCEEDED, (), None)
    assert [trial.state for trial in step.changed] == [TrialState.INFEASIBLE, TrialState.SUCCEEDED]
    [end] = [event.message for event in step.events if event.kind == "STUDY_ENDED"]
    assert "still succeeded" in end
    assert (end[-1], end[-2] == ".") == (".", False), "it is a sentence, as those of trials are"
