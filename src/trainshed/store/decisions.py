"""Steps that end a job, for the API and the controller."""

from typing import Final

from trainshed.lifecycle import decide
from trainshed.lifecycle.decide import commands_of
from trainshed.lifecycle.events import CancelRequested
from trainshed.model import event_kinds
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder
from trainshed.store.records.jobs import JobRecord
from trainshed.store.records.steps import NewEvent, Step

#: Without a code the SDK reports a cancelled pipeline as successful (docs/sources/vertex.md 1.7).
CANCELLED: Final = JobError(code=1, message="The job was cancelled.")

_CANCELLED_EVENT: Final = NewEvent(kind=event_kinds.CANCELLED, message="Job was cancelled.")
_CANCELLING_EVENT: Final = NewEvent(kind=event_kinds.CANCELLING, message="Job is being cancelled.")


def cancel_step(record: JobRecord) -> Step | None:
    """Return the step that cancels a job; None if the job is ending or has ended.

    If the store refuses the step, the job has changed: read it and call this again.
    """
    return ending_step(record.uid, record.version, record.job.status.state, CANCELLED)


def ending_step(  # noqa: PLR0913 - what the end of a job consists of
    uid: int,
    version: int,
    state: JobState,
    error: JobError,
    *,
    events: tuple[NewEvent, ...] = (),
    stop: StopOrder | None = None,
    server: str | None = None,
) -> Step | None:
    """Return the step that ends a job with ``error``; None if the job is ending or has ended.

    ``events`` come before the event of the end.
    """
    decision = decide(state, CancelRequested())
    if decision.state is state:
        return None
    at_once = decision.state is JobState.CANCELLED
    return Step(
        uid=uid,
        version=version,
        state=decision.state,
        error=error,
        events=(*events, _CANCELLED_EVENT if at_once else _CANCELLING_EVENT),
        commands=commands_of(state, decision),
        stop=stop,
        server=server,
    )
