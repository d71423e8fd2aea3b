"""What the store's contract about studies is written with: a study, its trials, and steps."""
# ruff: noqa: S101 - a step that does not fit is a failed test

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from trainshed.model.attempt import Report
from trainshed.model.status import JobState
from trainshed.model.study import Metric, ParameterKind, ParameterSpec, StudySpec, TrialSpec
from trainshed.model.trials import TrialRecord, TrialState
from trainshed.store.opening import Store
from trainshed.store.records import (
    JobRecord,
    Kind,
    NewJob,
    NewTrial,
    StoredTrial,
    StudyStep,
    TrialReports,
)
from trainshed.testing.store_builders import add, new_job, read

STUDY: Final = StudySpec(
    metrics=(Metric(metric_id="accuracy"),),
    parameters=(ParameterSpec(parameter_id="lr", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0)),),
    trial_count_max=9,
)


def add_study(store: Store, **changes: Any) -> JobRecord:
    """Store a new study of ml v1; ``changes`` are fields of NewJob or of its spec."""
    known = {"kind": Kind.ML_JOB, "job_id": "tune", "study": STUDY}
    return add(store, **{**known, **changes})


def trial_job(number: int, study_id: str = "tune", **changes: Any) -> NewJob:
    """The job of a trial of ml v1."""
    trial = TrialSpec(trial_id=str(number), parameters=(("lr", "0.5"),), study_job_id=study_id)
    known = {"kind": Kind.TRIAL, "job_id": f"{study_id}/trials/{number}", "study": STUDY}
    return new_job(**{**known, "trial": trial, **changes})


def vertex_trial_job(number: int) -> NewJob:
    """The job of a trial of Vertex, to which the store gives a name."""
    return trial_job(number, kind=Kind.CUSTOM_JOB, job_id="")


def trial(number: int, **changes: Any) -> TrialRecord:
    """A trial under way."""
    return replace(TrialRecord(number=number, values=(("lr", 0.5),)), **changes)


def new_trials(*numbers: int) -> tuple[NewTrial, ...]:
    """Trials of ml v1 with their jobs."""
    return tuple(NewTrial(trial=trial(n), job=trial_job(n)) for n in numbers)


def reported(number: int, *values: float, mark: int = 1, attempt: int = 1) -> TrialReports:
    """What a trial has reported, at steps 0, 1, 2 and so on."""
    reports = [Report(tag="accuracy", value=v, step=s) for s, v in enumerate(values)]
    return TrialReports(number=number, mark=(attempt, mark), reports=tuple(reports))


def step_of(store: Store, uid: int, **fields: Any) -> StudyStep:
    """A step from the row as it is now; it stays in its state unless ``fields`` have another."""
    record = read(store, uid)
    known = {"version": record.version, "state": record.job.status.state, "server": None}
    return StudyStep(uid=uid, **{**known, **fields})


def advance(store: Store, uid: int, **fields: Any) -> Sequence[StoredTrial]:
    """Take a step, which fits; the trials after it."""
    assert store.apply_study(step_of(store, uid, **fields))
    return store.trials(uid)


def ended(number: int) -> TrialRecord:
    """A trial that has come to nothing."""
    return trial(number, state=TrialState.INFEASIBLE, infeasible_reason="it failed")


def end(store: Store, uid: int, state: JobState = JobState.SUCCEEDED) -> None:
    """End a study whose trials have all ended."""
    advance(store, uid, state=state)
