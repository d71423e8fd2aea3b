"""Whether a job whose attempt has not done its work may try once more."""

from trainshed.lifecycle.budgets import budget_of
from trainshed.lifecycle.events import GaveUp, RestartGranted
from trainshed.lifecycle.exit_codes import ExitClass, class_of
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause, Restarts


def may_restart(cause: Cause, used: Restarts, scheduling: Scheduling, budgets: Budgets) -> bool:
    """Whether the budget of a cause has something left."""
    budget = budget_of(cause, scheduling, budgets)
    return budget is None or used.of(cause) < budget


def after_loss(
    attempt: int, why: str, used: Restarts, scheduling: Scheduling, budgets: Budgets
) -> RestartGranted | GaveUp:
    """What a proven loss of an attempt means; ``why`` is a sentence without its full stop."""
    if may_restart(Cause.INFRA, used, scheduling, budgets):
        return RestartGranted()
    return GaveUp(message=f"{lost(attempt, why)}, and {spent(Cause.INFRA, scheduling, budgets)}.")


def after_failure(
    status: int, used: Restarts, scheduling: Scheduling, budgets: Budgets
) -> RestartGranted | None:
    """Whether a program that failed with this status is tried again; None: the job has failed."""
    if class_of(status) is not ExitClass.RECOVERABLE:
        return None
    return RestartGranted() if may_restart(Cause.USER, used, scheduling, budgets) else None


def lost(attempt: int, why: str) -> str:
    """``Attempt 2 was lost (the machine was restarted)``."""
    return f"Attempt {attempt} was lost" + (f" ({why.rstrip('.')})" if why else "")


def spent(cause: Cause, scheduling: Scheduling, budgets: Budgets) -> str:
    """Why there is no further restart, as the end of a sentence."""
    if scheduling.disable_retries:
        return "disableRetries forbids another"
    budget = budget_of(cause, scheduling, budgets)
    return f"all {budget} restarts are used up" if budget else "it may not be restarted"
