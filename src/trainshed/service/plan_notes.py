"""Notes on jobs that were submitted, made beside the submits: no submit waits for one.

A job of a trainer that earlier jobs have taught about hears at its start what the planner would say
of it, where that is worth a word.  Notes take a hundredth of a processor and no more, so they
slow nobody: where very many jobs come at once the last ones go without.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from trainshed.catalog.catalog import Catalog
from trainshed.model.job import JobSpec
from trainshed.model.plan_wishes import wants_no_plan
from trainshed.model.resource_names import JobUid
from trainshed.planning.clusters_asked import PlannedJob
from trainshed.planning.job_runs import trainer_key
from trainshed.planning.planned_jobs import planned_job
from trainshed.planning.prices import PriceList
from trainshed.planning.scaling.calibration_file import read
from trainshed.planning.submit_note import SubmitNote, submit_note
from trainshed.store.opening import Store
from trainshed.store.records import NewEvent, StoredCalibration

#: The kind of the event.
KIND: Final = "PLAN_NOTE"
#: Share of a processor that notes may take.
SHARE: Final = 0.01
#: Seconds of work without a rest.
_AT_ONCE_S: Final = 0.02
#: Jobs that wait for a note, and notes that are remembered, for many jobs are alike.
_WAITING_MAX: Final = 1000
_KNOWN_MAX: Final = 256

_Known = tuple[str, str, int, PlannedJob, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submitted:
    uid: JobUid
    project: str
    spec: JobSpec


@dataclass(slots=True, kw_only=True)
class PlanNotes:
    """Takes jobs from any thread; one other writes what is worth it."""

    store: Store
    catalog: Catalog
    share: float = SHARE
    clock: Callable[[], float] = time.monotonic
    work_clock: Callable[[], float] = time.thread_time
    _waiting: deque[_Submitted] = field(default_factory=lambda: deque(maxlen=_WAITING_MAX))
    _known: dict[_Known, SubmitNote | None] = field(default_factory=dict)
    _rests_until_s: float = 0.0

    def add(self, uid: JobUid, project: str, spec: JobSpec) -> None:
        """A job that was just stored, expanded; returns at once."""
        if not wants_no_plan(spec.labels):
            self._waiting.append(_Submitted(uid=uid, project=project, spec=spec))

    def write(self) -> None:
        """Look at those that wait, unless it is time to rest.  Raises StoreFault."""
        if self.clock() < self._rests_until_s:
            return
        began, spent = self.work_clock(), 0.0
        taught: dict[tuple[str, str], StoredCalibration | None] = {}
        while self._waiting and spent < _AT_ONCE_S:
            self._look(self._waiting.popleft(), taught)
            spent = self.work_clock() - began
        self._rests_until_s = self.clock() + spent / self.share

    def _look(
        self, asked: _Submitted, taught: dict[tuple[str, str], StoredCalibration | None]
    ) -> None:
        trainer = trainer_key(asked.spec)
        if trainer is None:
            return
        of = (asked.project, trainer)
        if of not in taught:
            taught[of] = self.store.calibration_of(*of)
        stored = taught[of]
        note = self._note(asked, stored) if stored else None
        record = self.store.job_by_uid(asked.uid) if note else None
        if note and record and not record.job.status.state.is_final:
            message = f"From jobs of this trainer: {note.message}"
            data = {**note.numbers, "severity": "WARNING"}
            self.store.add_event(asked.uid, NewEvent(kind=KIND, message=message, data=data))

    def _note(self, asked: _Submitted, stored: StoredCalibration) -> SubmitNote | None:
        job, region = planned_job(asked.spec, self.catalog), asked.spec.region
        if not isinstance(job, PlannedJob):
            return None
        key = (asked.project, stored.key, stored.jobs, job, region)
        if key not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            calibration = read(stored.document)
            self._known[key] = submit_note(calibration, job, PriceList(region=region))
        return self._known[key]
