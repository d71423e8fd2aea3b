"""Tuning jobs: the study that a new one continues, its trials, and their jobs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainshed.lifecycle.deadlines import RUNNING_S_DEFAULT, TimeLimits, limits_of
from trainshed.model.early_stopping import stopping_with_labels
from trainshed.model.faults import Violation
from trainshed.model.job import JobSpec
from trainshed.model.reduction_report import PLANNED
from trainshed.model.resource_names import CUSTOM_JOBS, TRIALS, resource_name
from trainshed.model.roles import Dialect
from trainshed.model.study import SEARCH_RULE, ParameterSpec, StudySpec, TrialSpec
from trainshed.model.study_priors import priors_of_labels
from trainshed.model.study_start import KNOWN_RESULTS
from trainshed.model.trials import TrialRecord, TrialState, TrialView, text_of
from trainshed.service.jobs.refusing import invalid
from trainshed.service.jobs.start_story import SOURCES
from trainshed.service.jobs.submission import AdmittedJob, Parse
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobKind, JobRecord, NewJob
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import StoredTrial
from trainshed.tuning.measuring import measured
from trainshed.wire.aiplatform_v1.render import job_of_trial
from trainshed.wire.parsed import Parsed

PREVIOUS: Final = "trainingInput.hyperparameters.resumePreviousJobId"
#: Fields that a study without parameters takes from the study that it continues.
INHERITED: Final = ("params", "goal", "hyperparameterMetricTag")


def as_study(store: Store, project: str, admitted: AdmittedJob) -> AdmittedJob:
    """Return the tuning job with its own limits and the study that it continues.

    Raises Refusal if that study does not exist, has not ended, or has other parameters.
    """
    uid = _previous(store, project, admitted.spec.study)
    return replace(
        admitted,
        spec=_complete_study(admitted.spec, uid),
        expanded=_complete_study(admitted.expanded, uid),
        limits=limits_of_study(admitted.spec, admitted.limits),
        events=(*admitted.events, *_describe_previous(store, admitted.spec, uid)),
    )


def _describe_previous(store: Store, spec: JobSpec, uid: int | None) -> Iterator[NewEvent]:
    """Yield an event with what the study takes from the study that it continues."""
    if spec.study is None or uid is None:
        return
    trials = [result.trial for result in store.trial_results(uid)]
    taken = sum(trial.state is TrialState.SUCCEEDED for trial in trials)
    are = "is" if taken == 1 else "are"
    text = (
        f"{taken} of {len(trials)} trials of study {spec.study.resume_previous_job_id} {are} used"
    )
    earlier, _ = store.count_start(uid)
    text += f", and the {earlier} known results of that study" if earlier else ""
    name = f"study {spec.study.resume_previous_job_id}"
    sources = [{"name": name, "used": taken, "ignored": len(trials) - taken}]
    if earlier:
        sources.append({"name": f"known results of {name}", "used": earlier, "ignored": 0})
    data = {"taken": taken + earlier, SOURCES: sources}
    yield NewEvent(kind=KNOWN_RESULTS, message=f"{text}.", data=data)


def parse_resumed(parse: Parse, store: Store, project: str, document: Mapping[str, Any]) -> Parsed:
    """Parse a job; one that continues a study and names no parameters gets those of that study.

    At Google, the resumed study keeps its parameters.  The response shows the copied parameters.
    """
    parsed = parse(document)
    study = parsed.spec.study if parsed.spec else None
    if parsed.spec is None or study is None or study.parameters or not study.is_whole:
        return parsed
    record = _tuning_job(store, project, study.resume_previous_job_id or "")
    if record is None:
        return parsed
    whole = json.loads(parsed.spec.request)
    search, earlier = (_search(request) for request in (whole, json.loads(record.job.spec.request)))
    search |= {key: earlier[key] for key in INHERITED if key in earlier and not search.get(key)}
    return replace(parsed, spec=parse(whole).spec)


def _search(document: dict[str, Any]) -> dict[str, Any]:
    hyperparameters: dict[str, Any] = document["trainingInput"]["hyperparameters"]
    return hyperparameters


def _tuning_job(store: Store, project: str, job_id: str) -> JobRecord | None:
    record = store.job(project, JobKind.ML_JOB, job_id) if job_id else None
    return record if record and record.job.spec.is_study else None


def trial_views(store: Store, record: JobRecord) -> tuple[TrialView, ...]:
    """Return the trials of a study by number, as clients see them; none for other jobs."""
    study = record.job.spec.study
    if study is None or not record.job.spec.is_study:
        return ()
    return tuple(trial_view(record, study, stored) for stored in store.trials(record.uid))


def trial_view(record: JobRecord, study: StudySpec, stored: StoredTrial) -> TrialView:
    """Return a trial with the measurements of its reports, as clients see it."""
    job = record.job
    is_ml = record.kind is JobKind.ML_JOB
    name = resource_name(CUSTOM_JOBS, job.project, job.location, stored.job_name)
    trial = replace(stored.trial, measurements=measured(study, stored.trial, stored.reports))
    return TrialView(trial=trial, job_name="" if is_ml else name, job_state=stored.job_state)


def _complete_study(spec: JobSpec, previous_uid: int | None) -> JobSpec:
    """Return the spec with the study that it continues, what its labels say, and SEARCH_RULE."""
    if spec.study is None:
        return spec
    study = replace(
        spec.study,
        resume_previous_uid=previous_uid,
        search_rule=SEARCH_RULE,
        stopping=stopping_with_labels(spec.study, spec.labels),
        priors=priors_of_labels(spec.study, spec.labels),
    )
    return replace(spec, study=study)


def _previous(store: Store, project: str, study: StudySpec | None) -> int | None:
    if study is None or not study.resume_previous_job_id:
        return None
    job_id = study.resume_previous_job_id
    record = _tuning_job(store, project, job_id)
    if record is None:
        raise invalid([_violation(f"there is no tuning job {job_id} in project {project}")])
    if not record.job.status.state.is_final:
        raise invalid([_violation(f"job {job_id} is not over yet")])
    earlier = record.job.spec.study
    if earlier is None or _space(earlier.parameters) != _space(study.parameters):
        raise invalid([_violation(f"job {job_id} has other parameters")])
    if earlier.metrics != study.metrics:
        raise invalid([_violation(f"job {job_id} has another metric or goal")])
    return record.uid


def _space(parameters: Sequence[ParameterSpec]) -> frozenset[ParameterSpec]:
    return frozenset(parameters)


def _violation(message: str) -> Violation:
    accepted = "a tuning job of this project that is over; params and metric must be the same, or "
    accepted += "be left out"
    return Violation(field=PREVIOUS, rule="study-previous", message=message, accepted=accepted)


#: How many first events of a study are read: those of its submission are among them.
_HEAD: Final = 10

_KIND: Final = {Dialect.ML_V1: JobKind.TRIAL, Dialect.AIPLATFORM_V1: JobKind.CUSTOM_JOB}
_NO_LIMITS: Final = TimeLimits(running_s_max=None, waiting_s_max=None)


def limits_of_study(spec: JobSpec, limits: TimeLimits) -> TimeLimits:
    """Return the time limits of the tuning job: ml v1 limits the whole job, Vertex each trial."""
    return limits if spec.dialect is Dialect.ML_V1 else _NO_LIMITS


@dataclass(frozen=True, slots=True)
class TrialJobs:
    """Makes the jobs of trials; called by the controller before it stores them."""

    store: Store
    running_s_default: float | None = RUNNING_S_DEFAULT

    def __call__(self, record: JobRecord, trial: TrialRecord) -> NewJob:
        """Return the job of a trial of this study."""
        expanded, notes = self.store.to_launch(record.uid)
        limits = _NO_LIMITS
        if expanded.dialect is Dialect.AIPLATFORM_V1:
            limits = limits_of(expanded.scheduling, self.running_s_default)
        return NewJob(
            kind=_KIND[expanded.dialect],
            project=record.job.project,
            location=record.job.location,
            job_id=_job_id(record, trial),
            spec=_build_trial_spec(record.job.spec, record, trial),
            expanded=_build_trial_spec(expanded, record, trial),
            demand=self.store.demand(record.uid),
            creator=record.creator,
            notes=notes,
            events=self._copy_plan_events(record.uid),
            running_s_max=limits.running_s_max,
            waiting_s_max=limits.waiting_s_max,
        )

    def _copy_plan_events(self, uid: int) -> tuple[NewEvent, ...]:
        """Copy the prediction of the study's reducers, for comparison at the end of each trial."""
        events = self.store.events(uid, limit=_HEAD)
        return tuple(
            NewEvent(kind=event.kind, message=event.message, data=event.data)
            for event in events
            if event.kind == PLANNED
        )


def _job_id(record: JobRecord, trial: TrialRecord) -> str:
    """Return the id of a trial's job; empty if the store numbers it, as for Vertex CustomJobs."""
    is_ml = record.job.spec.dialect is Dialect.ML_V1
    return f"{record.job.job_id}/{TRIALS}/{trial.number}" if is_ml else ""


def _build_trial_spec(spec: JobSpec, record: JobRecord, trial: TrialRecord) -> JobSpec:
    number = str(trial.number)
    study_id = record.job.job_id
    trial_spec = replace(
        spec,
        job_id=_job_id(record, trial),
        trial=TrialSpec(
            trial_id=number,
            parameters=tuple((name, text_of(value)) for name, value in trial.values),
            study_job_id=study_id,
        ),
    )
    is_ml = spec.dialect is Dialect.ML_V1
    return trial_spec if is_ml else job_of_trial(trial_spec, study_id, number)
