"""Cancels jobs that exceed their limit of waiting or running time, with an error that says so.

An attempt that has already ended is left to the observer: it may have ended in time, while no
server was running.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.controller.leases import Leases
from trainshed.controller.steps import apply_all
from trainshed.controller.worker import Pace
from trainshed.engines.several import Engines
from trainshed.lifecycle.deadlines import overdue
from trainshed.lifecycle.outcome import DEADLINE_EXCEEDED
from trainshed.model.attempt import AttemptKey, Phase
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.store.decisions import ending_step
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Due, JobRecord
from trainshed.store.records.steps import NewEvent, Step

_AT_ONCE = 500

#: A job whose attempt is in one of these phases is not cancelled.  An attempt that never ran may
#: be unknown or absent because no server could launch it.
_OVER: Final[Mapping[JobState, Collection[Phase]]] = {
    JobState.ENQUEUED: {Phase.ENDED},
    JobState.PREPARING: {Phase.ENDED},
    JobState.RUNNING: {Phase.ENDED, Phase.LOST, Phase.UNKNOWN},
    JobState.RESTARTING: {Phase.ENDED},
}


@dataclass(eq=False)
class Deadlines:
    """Cancels overdue jobs while this server leads."""

    store: Store
    engines: Engines
    leases: Leases
    pace: Pace

    def once(self) -> int:
        """Do one pass; return how many jobs were cancelled, 0 while another server leads."""
        if not self.leases.leading:
            return 0
        server = self.leases.name
        due = self._not_over(self.store.due(limit=_AT_ONCE))
        if not due:
            return 0
        records = self.store.jobs_by_uid([job.uid for job in due])
        candidates = [
            self._step(job, records[job.uid], server) for job in due if job.uid in records
        ]
        steps = [step for step in candidates if step is not None]
        return sum(apply_all(self.store, steps, self.pace.batch))

    def _not_over(self, due: Iterable[Due]) -> Sequence[Due]:
        """Return the jobs whose attempt has not ended; a study has no attempt."""
        by_key = {AttemptKey(job.uid, job.attempt): job for job in due}
        with_attempt = [key for key, job in by_key.items() if key.attempt and job.state in _OVER]
        for observation in self.engines.observe(with_attempt) if with_attempt else ():
            if observation.phase in _OVER[by_key[observation.key].state]:
                del by_key[observation.key]
        return tuple(by_key.values())

    def _step(self, due: Due, record: JobRecord, server: str) -> Step | None:
        """Return the step that ends an overdue job, if its version has not changed."""
        spec = record.job.spec
        message = overdue(spec.dialect, spec.scheduling, has_run=due.has_run, ran_s=record.ran_s)
        order = StopOrder(grace_s=self.pace.grace_s, reason=StopReason.TIMEOUT, message=message)
        return ending_step(
            due.uid,
            due.version,
            due.state,
            JobError(code=DEADLINE_EXCEEDED, message=message),
            events=(NewEvent(kind="TIMEOUT", message=message, data={"severity": "WARNING"}),),
            stop=order,
            server=server,
        )
