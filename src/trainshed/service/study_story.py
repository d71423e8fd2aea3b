"""How a study stands, in sentences: what its trials do, what waits, the best so far (R19)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from trainshed.model.status import JobState
from trainshed.model.study import StudySpec
from trainshed.model.trials import TrialState, text_of
from trainshed.service.studies import trial_views
from trainshed.store.base import StoreBase
from trainshed.store.records import JobRecord
from trainshed.store.records_studies import StoredTrial
from trainshed.tuning.ranking import best, objectives

_WORDS: Final = {
    TrialState.SUCCEEDED: "succeeded",
    TrialState.INFEASIBLE: "infeasible",
    TrialState.STOPPING: "being stopped",
}


def study_sentence(store: StoreBase, record: JobRecord) -> str:
    """Why a tuning job that is not over is where it is."""
    study = record.job.spec.study
    assert study is not None, f"job {record.uid} has no study"  # noqa: S101
    stored = store.trials(record.uid)
    if not stored:
        return "Its first trials are about to be made."
    sentences = [
        _counts(study, stored),
        *_leader(store, record, study),
        *_waiting(store, stored),
    ]
    return " ".join(sentences)


def _counts(study: StudySpec, stored: Sequence[StoredTrial]) -> str:
    """``7 of 24 trials were made: 2 running, 4 succeeded, 1 infeasible.``."""
    counts = Counter(_word(each) for each in stored)
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(stored)} of {study.trial_count_max} trials were made: {told}."


def _word(stored: StoredTrial) -> str:
    active = "running" if stored.job_state is JobState.RUNNING else "waiting or starting"
    return _WORDS.get(stored.trial.state, active)


def _leader(store: StoreBase, record: JobRecord, study: StudySpec) -> Iterator[str]:
    if len(objectives(study)) != 1:
        return
    leader = best(study, [view.trial for view in trial_views(store, record)])
    if leader is None or leader.final is None:
        return
    values = ", ".join(f"{name} {value:.6g}" for name, value in leader.final.metrics)
    how = ", ".join(f"{name}={text_of(value)}" for name, value in leader.values)
    yield f"The best so far is trial {leader.number} with {values} ({how})."


def _waiting(store: StoreBase, stored: Sequence[StoredTrial]) -> Iterator[str]:
    """What the first trial that waits is waiting for."""
    queued = (each for each in stored if each.job_state is JobState.QUEUED)
    first = next(queued, None)
    job = store.job_by_uid(first.job_uid) if first else None
    if first is None or job is None or job.job.explanation is None:
        return
    yield f"Trial {first.trial.number} waits: {job.job.explanation.message}"
