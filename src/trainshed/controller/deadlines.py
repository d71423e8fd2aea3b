"""Jobs whose time to wait or to run is over are cancelled, with an error that says so.

An attempt that is over already is left to whoever observes it: no server may have lived when it
ended, and what it has done within its time must not be taken from it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.controller.leases import Leases
from trainshed.controller.steps import apply_all
from trainshed.controller.worker import Pace
from trainshed.engines.base import Engine
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

#: What must not be seen of the attempt of a job that is to be ended.  One that never ran may be
#: unknown or absent because nobody could launch it.
_OVER: Final[Mapping[JobState, Collection[Phase]]] = {
    JobState.ENQUEUED: {Phase.ENDED},
    JobState.PREPARING: {Phase.ENDED},
    JobState.RUNNING: {Phase.ENDED, Phase.LOST, Phase.UNKNOWN},
    JobState.RESTARTING: {Phase.ENDED},
}


@dataclass(eq=False)
class Deadlines:
    """Ends jobs that are overdue while this server leads."""

    store: Store
    engine: Engine
    leases: Leases
    pace: Pace

    def once(self) -> int:
        """One pass; how many jobs were ended.  0 while another server leads."""
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
        """Those whose attempt is not over, as far as can be said now; a study has none."""
        by_key = {AttemptKey(job.uid, job.attempt): job for job in due}
        with_attempt = [key for key, job in by_key.items() if key.attempt and job.state in _OVER]
        for observation in self.engine.observe(with_attempt) if with_attempt else ():
            if observation.phase in _OVER[by_key[observation.key].state]:
                del by_key[observation.key]
        return tuple(by_key.values())

    def _step(self, due: Due, record: JobRecord, server: str) -> Step | None:
        """The job as it was when it was due: if it has moved on since, the step does not fit."""
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
