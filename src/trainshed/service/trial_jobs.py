"""The job of a trial: the study's own, with arguments of its own, in folders of its own (R19).

It goes through the queue like any job.  On Vertex it is a CustomJob that clients can ask for; ml v1
knows no jobs below a job, so it is in no list there (contracts/gcloud.md 10, vertex-sdk.md 8).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainshed.launch.directories import under
from trainshed.lifecycle.deadlines import RUNNING_S_DEFAULT, TimeLimits, limits_of
from trainshed.model.job import JobSpec
from trainshed.model.reduction_report import PLANNED
from trainshed.model.roles import Dialect
from trainshed.model.study import Trial
from trainshed.model.trials import TrialRecord, text_of
from trainshed.store.base import Jobs
from trainshed.store.records import JobRecord, Kind, NewEvent, NewJob
from trainshed.wire.parsed import compact

#: Whoever looks for a trial's job by itself finds its study.
STUDY_LABEL: Final = "trainshed-study"
TRIAL_LABEL: Final = "trainshed-trial"
_DISPLAY_NAME_MAX = 128
_LABELS_MAX = 64
#: The first events of a study, with all that was told when it was submitted.
_HEAD: Final = 10

_KIND: Final = {Dialect.ML_V1: Kind.TRIAL, Dialect.AIPLATFORM_V1: Kind.CUSTOM_JOB}
_NO_LIMITS: Final = TimeLimits(running_s_max=None, waiting_s_max=None)


def limits_of_study(spec: JobSpec, limits: TimeLimits) -> TimeLimits:
    """The limits of a tuning job itself: ml v1 limits the whole job, Vertex each trial's."""
    return limits if spec.dialect is Dialect.ML_V1 else _NO_LIMITS


@dataclass(frozen=True, slots=True)
class TrialJobs:
    """Makes the jobs of trials; called by the controller before it stores them."""

    store: Jobs
    running_s_default: float | None = RUNNING_S_DEFAULT

    def __call__(self, record: JobRecord, trial: TrialRecord) -> NewJob:
        """The job of a trial of this study."""
        expanded = self.store.expanded(record.uid)
        limits = _NO_LIMITS
        if expanded.dialect is Dialect.AIPLATFORM_V1:
            limits = limits_of(expanded.scheduling, self.running_s_default)
        return NewJob(
            kind=_KIND[expanded.dialect],
            project=record.job.project,
            location=record.job.location,
            job_id=_job_id(record, trial),
            spec=_of_trial(record.job.spec, record, trial),
            expanded=_of_trial(expanded, record, trial),
            demand=self.store.demand(record.uid),
            creator=record.creator,
            notes=self.store.notes(record.uid),
            told=self._told(record.uid),
            running_s_max=limits.running_s_max,
            waiting_s_max=limits.waiting_s_max,
        )

    def _told(self, uid: int) -> tuple[NewEvent, ...]:
        """What its study was told of its reducers: a trial is compared with it at its own end."""
        events = self.store.events(uid, limit=_HEAD)
        return tuple(
            NewEvent(kind=event.kind, message=event.message, data=event.data)
            for event in events
            if event.kind == PLANNED
        )


def _job_id(record: JobRecord, trial: TrialRecord) -> str:
    """Empty lets the store name it, as Vertex numbers its CustomJobs."""
    is_ml = record.job.spec.dialect is Dialect.ML_V1
    return f"{record.job.job_id}/trials/{trial.number}" if is_ml else ""


def _of_trial(spec: JobSpec, record: JobRecord, trial: TrialRecord) -> JobSpec:
    number = str(trial.number)
    found = replace(
        spec,
        job_id=_job_id(record, trial),
        trial=Trial(
            trial_id=number,
            parameters=tuple((name, text_of(value)) for name, value in trial.values),
            study_job_id=record.job.job_id,
        ),
    )
    if spec.dialect is Dialect.ML_V1:
        return found
    suffix = f"-trial-{number}"
    name = spec.display_name[: _DISPLAY_NAME_MAX - len(suffix)] + suffix
    own = {STUDY_LABEL: record.job.job_id, TRIAL_LABEL: number}
    labels = {**spec.labels, **(own if len(spec.labels) + len(own) <= _LABELS_MAX else {})}
    return replace(
        found,
        display_name=name,
        labels=labels,
        request=_in_own_folder(spec.request, number),
        envelope=_envelope(spec.envelope, name, labels),
    )


def _envelope(of_study: str, name: str, labels: Mapping[str, str]) -> str:
    around: Mapping[str, Any] = json.loads(of_study)
    kept = {key: around[key] for key in ("encryptionSpec",) if key in around}
    return compact({"displayName": name, "labels": dict(labels), **kept})


def _in_own_folder(request: str, number: str) -> str:
    """What the trial's job shows as its output directory (contracts/vertex-sdk.md 8).

    Where results go is ``launch``'s business: it puts the trial's folder under the study's.
    """
    document: dict[str, Any] = json.loads(request)
    base = document.get("baseOutputDirectory", {}).get("outputUriPrefix")
    if not base:
        return request
    own = {"outputUriPrefix": under(base, number, "")}
    return compact({**document, "baseOutputDirectory": own})
