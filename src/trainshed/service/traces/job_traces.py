"""Finds the spans of jobs that are due, for the exporter of traces.

Only the server that leads sends them.  What was sent is a mark in the store: a server that is
killed between sending and storing the mark sends the same spans, with the same ids, again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trainshed.model.resources import JobDemand
from trainshed.model.restarts import Cause
from trainshed.model.trials import TRIAL_ENDED
from trainshed.observability.spans import Attributes, AttributeValue, TraceSpan
from trainshed.service.traces.job_spans import ENDING_KINDS, ENDS, TracedJob, job_spans
from trainshed.store.job_traces import EndedPhases
from trainshed.store.opening import Store
from trainshed.store.records.jobs import ML_KINDS, JobRecord
from trainshed.store.records.steps import StoredEvent

#: The most events that end a phase which one look considers.
ENDS_MAX: Final = 200
#: Seconds between two looks after one without new events.
EVERY_S: Final = 2.0
#: Events without a span after which the mark moves too, so that they are not read again.
_IDLE_EVENTS: Final = 10_000
#: The most events of these jobs that are read: 500 of each job.
_EVENTS_MAX: Final = 100_000


@dataclass(slots=True)
class JobTraces:
    """The spans of jobs after the mark."""

    store: Store
    leads: Callable[[], bool]
    """Whether this server leads; the others send no spans of jobs."""
    every_s: float = EVERY_S
    monotonic: Callable[[], float] = time.monotonic
    _mark: int | None = field(default=None, init=False)
    """None: to be read, because this server has not led until now."""
    _sending: EndedPhases | None = field(default=None, init=False)
    _due_at: float = field(default=float("-inf"), init=False)

    def next_spans(self) -> Sequence[TraceSpan]:
        """Return the spans after the mark; empty if there are none, or this server does not lead.

        Raises StoreFault.
        """
        if not self.leads():
            self._mark = None
            return ()
        if self.monotonic() < self._due_at:
            return ()
        spans = self._find_spans()
        if not spans:
            self._due_at = self.monotonic() + self.every_s
        return spans

    def note_sent(self) -> None:
        """Move the mark behind the last ``next_spans``.  Raises StoreFault."""
        if self._sending is not None and self._mark is not None:
            self._move(self._sending.until)

    def _find_spans(self) -> Sequence[TraceSpan]:
        if self._mark is None:
            self._mark = self.store.trace_mark()
        while True:
            phases = self.store.ended_phases(self._mark, ENDING_KINDS, limit=ENDS_MAX)
            spans = list(self._spans_of(phases))
            self._sending = phases
            if spans:
                return spans
            if not phases.uids:
                if abs(phases.until - self._mark) > _IDLE_EVENTS or phases.after < self._mark:
                    self._move(phases.until)
                return ()
            self._move(phases.until)  # the jobs of these events were deleted

    def _move(self, until: int) -> None:
        """Store the mark; if another server moved it meanwhile, read it again."""
        is_moved = self._mark is not None and self.store.move_trace_mark(self._mark, until)
        self._mark = until if is_moved else None
        if self._mark is None:
            self._mark = self.store.trace_mark()

    def _spans_of(self, phases: EndedPhases) -> Iterator[TraceSpan]:
        if not phases.uids:
            return
        records = self.store.jobs_by_uid(phases.uids)
        events = self.store.events_of_jobs(records.keys(), limit=_EVENTS_MAX)
        studies = self.store.studies_of(records.keys())
        for uid, record in records.items():
            job = self._describe(record, studies.get(uid), events[uid])
            if record.job.spec.is_study:
                job = replace(job, trial_uids=self._find_trials(uid, events[uid], phases))
            for ended in job_spans(job, events[uid]):
                if phases.after < ended.seq <= phases.until:
                    yield ended.span

    def _find_trials(
        self, uid: int, events: Sequence[StoredEvent], phases: EndedPhases
    ) -> Mapping[int, int]:
        """Return the jobs of the trials that ended in a range of events."""
        ended = (
            event.data.get("trial")
            for event in events
            if event.kind == TRIAL_ENDED and phases.after < event.seq <= phases.until
        )
        return self.store.jobs_of_trials(uid, [n for n in ended if isinstance(n, int)])

    def _describe(
        self, record: JobRecord, study_uid: int | None, events: Sequence[StoredEvent]
    ) -> TracedJob:
        has_root = any(event.kind in ENDS for event in events)
        return TracedJob(
            installation=self.store.installation_number(),
            uid=record.uid,
            is_study=record.job.spec.is_study,
            study_uid=study_uid,
            attributes=_attributes(record, self.store.demand(record.uid)) if has_root else {},
        )


def _attributes(record: JobRecord, demand: JobDemand) -> Attributes:
    """Describe a job; what is empty or 0 is left out."""
    job, trial = record.job, record.job.spec.trial
    region = job.location if record.kind not in ML_KINDS else job.spec.region
    attributes: dict[str, AttributeValue] = {
        "trainshed.job.uid": str(record.uid),
        "trainshed.job.id": job.job_id,
        "trainshed.job.kind": record.kind.value,
        "trainshed.job.project": job.project,
        "trainshed.job.region": region or "",
        "trainshed.job.creator": record.creator,
        "trainshed.job.replicas": job.spec.replica_count,
        "trainshed.job.gpus": sum(group.count * group.each.gpu_count for group in demand.groups),
        "trainshed.study": trial.study_job_id if trial else "",
        "trainshed.trial": trial.trial_id if trial else "",
    }
    for cause in Cause:
        attributes[f"trainshed.job.restarts.{cause.value}"] = record.restarts.of(cause)
    return {name: value for name, value in attributes.items() if value}
