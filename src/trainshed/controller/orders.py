"""Orders to end an attempt that lives, so that the next one can begin."""

from trainshed.controller import words
from trainshed.controller.verdicts import UNAVAILABLE, Terms, Verdict
from trainshed.lifecycle.events import RestartOrdered
from trainshed.lifecycle.restart import may_restart, spent
from trainshed.model.restarts import Cause
from trainshed.model.status import JobError
from trainshed.model.stopping import StopOrder
from trainshed.store.records import Active


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
