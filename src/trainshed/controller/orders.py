"""Orders to end an attempt that lives, so that the next one can begin."""

from trainshed.controller import words
from trainshed.controller.verdicts import UNAVAILABLE, Terms, Verdict
from trainshed.lifecycle.events import RestartOrdered
from trainshed.lifecycle.restart import may_restart, spent
from trainshed.model.restarts import Cause
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder
from trainshed.store.records import Active, CommandKind, JobRecord, Step


def restart(active: Active, order: StopOrder, cause: Cause, terms: Terms) -> Verdict | None:
    """The order as a step of the job; None where its budget has nothing left for the cause."""
    if not may_restart(cause, active.restarts, terms.scheduling, terms.budgets):
        return None
    return Verdict(
        event=RestartOrdered(),
        story=(words.stopping(order, None),),
        restarts=active.restarts.plus(cause),
        stop=order,
    )


def last_stop(order: StopOrder, cause: Cause, terms: Terms) -> Verdict:
    """The same for a job that may not start again: it gets its notice and fails when it is gone.

    The error is written with the order, so that whoever sees the end knows what it means.
    """
    why = spent(cause, terms.scheduling, terms.budgets)
    doom = JobError(code=UNAVAILABLE, message=f"{order.message.rstrip('.')}, and {why}.")
    return Verdict(
        event=RestartOrdered(), story=(words.stopping(order, doom),), error=doom, stop=order
    )


def sooner(record: JobRecord, order: StopOrder, server: str) -> Step:
    """A shorter notice for an attempt that has been given one: it was counted and stays RESTARTING.

    What the job will have failed of stands in its row, and is written again to stay there.
    """
    doom = record.job.status.error
    return Step(
        uid=record.uid,
        version=record.version,
        state=JobState.RESTARTING,
        error=doom,
        events=(words.stopping(order, doom),),
        commands=(CommandKind.STOP,),
        stop=order,
        server=server,
    )
