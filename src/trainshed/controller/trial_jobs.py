"""Lets the jobs of trials follow their trials: ends, pauses and resumes them.

Each pass derives what is left to do from the stored trials and jobs, after the step of the study
was written.  A server that was killed in between loses nothing: the next pass does the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.controller.leases import Leases
from trainshed.controller.steps import step_of
from trainshed.lifecycle.outcome import pause_ordered, paused
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.model.trials import TRIAL_PAUSED, TrialRecord, TrialState
from trainshed.store.decisions import CANCELLED, ending_step
from trainshed.store.opening import Store
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent, Step
from trainshed.store.records.studies import StoredTrial

#: The most pauses of a study whose evidence is read, the newest ones.
PAUSES_MAX: Final = 1_000
_ALIVE: Final = frozenset({JobState.ENQUEUED, JobState.PREPARING, JobState.RUNNING})

#: A stored trial with its job, and the trial after the step of its study.
FollowedTrial = tuple[StoredTrial, TrialRecord]


@dataclass(frozen=True, slots=True)
class JobsOfTrials:
    """The jobs of the trials of all studies."""

    store: Store
    leases: Leases
    grace_s: float
    """The seconds of notice for the replicas of a trial that is paused."""

    def follow(self, study_uid: int, trials: Sequence[FollowedTrial]) -> int:
        """Write what the jobs lack; return how many jobs changed."""
        open_jobs = [pair for pair in trials if not pair[0].job_state.is_final]
        changing = {one.job_uid: trial for one, trial in open_jobs if _is_behind(one, trial)}
        if not changing:
            return 0
        records = self.store.jobs_by_uid(tuple(changing))
        steps = tuple(self._steps(study_uid, records, changing))
        applied = sum(self.store.apply(steps)) if steps else 0
        return applied + self._resume_all(records, changing)

    def _steps(
        self, study_uid: int, records: Mapping[int, JobRecord], trials: Mapping[int, TrialRecord]
    ) -> Iterator[Step]:
        for uid, record in records.items():
            step = self._step(study_uid, record, trials[uid])
            if step is not None:
                yield step

    def _step(self, study_uid: int, record: JobRecord, trial: TrialRecord) -> Step | None:
        """Return the step that ends or pauses a job; None if its state allows none now."""
        state = record.job.status.state
        if trial.state is TrialState.STOPPING:
            early = "The trial was stopped early." if trial.stopped_early else "Its study ended."
            error = JobError(code=CANCELLED.code, message=early)
            server = self.leases.name
            return ending_step(record.uid, record.version, state, error, server=server)
        if trial.state is not TrialState.PAUSED:
            return None
        if state is JobState.QUEUED and not record.is_held:
            judgement = paused(self._explain(study_uid, trial))
        elif state in _ALIVE:
            message = self._explain(study_uid, trial)
            order = StopOrder(grace_s=self.grace_s, reason=StopReason.PAUSE, message=message)
            judgement = pause_ordered(order)
        else:  # its attempt ends already
            return None
        return step_of(record.active, judgement, self.leases.name)

    def _explain(self, study_uid: int, trial: TrialRecord) -> str:
        """Return why a trial is paused, and when it is resumed, as one sentence."""
        events = self.store.events_of_kind(study_uid, TRIAL_PAUSED, limit=PAUSES_MAX)
        own = [event.data for event in events if event.data.get("trial") == trial.number]
        reason = str(own[0].get("reason", "")) if own else ""
        why = f": {reason[:1].lower()}{reason[1:].rstrip('.')}" if reason else ""
        at = f"Trial {trial.number} is paused at step {trial.paused_at}{why}"
        return f"{at}; its study resumes it when it is among the best of its rung"

    def _resume_all(
        self, records: Mapping[int, JobRecord], trials: Mapping[int, TrialRecord]
    ) -> int:
        """Resume the jobs that were paused; a job that a person has stopped stays held."""
        active = [uid for uid, trial in trials.items() if trial.state is TrialState.ACTIVE]
        paused_uids = [uid for uid in active if uid in records and records[uid].is_paused]
        return sum(self.store.resume(uid, _resumed(trials[uid])) for uid in paused_uids)


def _is_behind(stored: StoredTrial, trial: TrialRecord) -> bool:
    """Whether the job of a trial may have to change."""
    if trial.state is TrialState.ACTIVE:
        return stored.job_is_held
    is_paused = trial.state is TrialState.PAUSED and not stored.job_is_held
    return is_paused or trial.state is TrialState.STOPPING


def _resumed(trial: TrialRecord) -> NewEvent:
    message = f"Its study resumes trial {trial.number}; the job is queued again"
    return NewEvent(kind="RESUMED", message=message)
