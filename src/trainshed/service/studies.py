"""Tuning jobs as use cases see them: what one goes on from, and how its trials stand (R19)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.study import ParameterSpec, StudySpec
from trainshed.model.trials import TrialView
from trainshed.service.refusing import invalid
from trainshed.service.resource_names import job_name
from trainshed.service.submission import Admitted
from trainshed.service.trial_jobs import limits_of_study
from trainshed.store.base import StoreBase
from trainshed.store.records import JobRecord, Kind
from trainshed.store.records_studies import StoredTrial
from trainshed.tuning.measuring import measured

PREVIOUS: Final = "trainingInput.hyperparameters.resumePreviousJobId"


def as_study(store: StoreBase, project: str, admitted: Admitted) -> Admitted:
    """A tuning job that may be stored: with its own limits, and with the study it goes on from.

    Raises Refusal where that one is not there, is not over, or has other parameters.
    """
    uid = _previous(store, project, admitted.spec.study)
    return replace(
        admitted,
        spec=_going_on(admitted.spec, uid),
        expanded=_going_on(admitted.expanded, uid),
        limits=limits_of_study(admitted.spec, admitted.limits),
    )


def trial_views(store: StoreBase, record: JobRecord) -> tuple[TrialView, ...]:
    """The trials of a study by number, as clients see them; of any other job there are none."""
    study = record.job.spec.study
    if study is None or not record.job.spec.is_study:
        return ()
    return tuple(_view(record, study, stored) for stored in store.trials(record.uid))


def _view(record: JobRecord, study: StudySpec, stored: StoredTrial) -> TrialView:
    job = record.job
    is_ml = record.kind is Kind.ML_JOB
    name = job_name(Kind.CUSTOM_JOB, job.project, job.location, stored.job_name)
    trial = replace(stored.trial, measurements=measured(study, stored.trial, stored.reports))
    return TrialView(trial=trial, job_name="" if is_ml else name, job_state=stored.job_state)


def _going_on(spec: JobSpec, uid: int | None) -> JobSpec:
    study = spec.study
    return replace(spec, study=study and replace(study, resume_previous_uid=uid))


def _previous(store: StoreBase, project: str, study: StudySpec | None) -> int | None:
    if study is None or not study.resume_previous_job_id:
        return None
    job_id = study.resume_previous_job_id
    record = store.job(project, Kind.ML_JOB, job_id)
    if record is None or not record.job.spec.is_study:
        raise invalid([_refused(f"there is no tuning job {job_id} in project {project}")])
    if not record.job.status.state.is_final:
        raise invalid([_refused(f"job {job_id} is not over yet")])
    earlier = record.job.spec.study
    if earlier is None or _space(earlier.parameters) != _space(study.parameters):
        raise invalid([_refused(f"job {job_id} has other parameters")])
    if earlier.metrics != study.metrics:
        raise invalid([_refused(f"job {job_id} has another metric or goal")])
    return record.uid


def _space(parameters: Sequence[ParameterSpec]) -> frozenset[ParameterSpec]:
    return frozenset(parameters)


def _refused(message: str) -> Violation:
    accepted = "a tuning job of this project that is over, with the same params and metric"
    return Violation(field=PREVIOUS, rule="study-previous", message=message, accepted=accepted)
