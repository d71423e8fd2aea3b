"""Decides whether a job whose attempt has not finished its work gets another attempt.

An exit status up to 128 means that the program cannot continue.  A higher status means that a
signal ended the program, which may not happen again.  AI Platform distinguished these classes, and
Kubernetes' training operators still do.
"""

import enum

from trainshed.lifecycle.events import GaveUp, RestartGranted
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause, Restarts


class ExitClass(enum.Enum):
    """The classes of ends, by whether another attempt may help."""

    SUCCESS = "success"
    PERMANENT = "permanent"
    """Another attempt would end in the same way."""
    RECOVERABLE = "recoverable"
    """The job may be restarted, within the budget of the program."""


def classify_exit(status: int) -> ExitClass:
    """Return the class of an exit status as in a shell: the exit code, or 128 + the signal."""
    if status == 0:
        return ExitClass.SUCCESS
    return ExitClass.RECOVERABLE if status > SIGNAL_BASE else ExitClass.PERMANENT


def budget_of(cause: Cause, scheduling: Scheduling, budgets: Budgets) -> int | None:
    """Return how many restarts a job has for a cause; no limit if None.

    With ``disableRetries`` the job has none: the job must not run twice (docs/sources/vertex.md 8).
    ``restartJobOnWorkerRestart`` and ``resilientToWorkerRestart`` change nothing: every restart
    restarts the whole job, as these fields request.
    """
    return 0 if scheduling.disable_retries else budgets.of(cause)


def may_restart(cause: Cause, used: Restarts, scheduling: Scheduling, budgets: Budgets) -> bool:
    """Whether the budget of a cause has restarts left."""
    budget = budget_of(cause, scheduling, budgets)
    return budget is None or used.of(cause) < budget


def decide_after_loss(  # noqa: PLR0913 - a cause with a default
    attempt: int,
    why: str,
    used: Restarts,
    scheduling: Scheduling,
    budgets: Budgets,
    *,
    cause: Cause = Cause.INFRA,
) -> RestartGranted | GaveUp:
    """Grant a restart after a loss, or give up; ``why`` is a sentence without its full stop."""
    if may_restart(cause, used, scheduling, budgets):
        return RestartGranted()
    reason = explain_no_restart(cause, scheduling, budgets)
    return GaveUp(message=f"{describe_loss(attempt, why)}, and {reason}.")


def decide_after_failure(
    status: int, used: Restarts, scheduling: Scheduling, budgets: Budgets
) -> RestartGranted | None:
    """Grant a restart to a program that failed with this status; None: the job has failed."""
    if classify_exit(status) is not ExitClass.RECOVERABLE:
        return None
    return RestartGranted() if may_restart(Cause.USER, used, scheduling, budgets) else None


def describe_loss(attempt: int, why: str) -> str:
    """Return a sentence: ``Attempt 2 was lost (the machine was restarted)``."""
    return f"Attempt {attempt} was lost" + (f" ({why.rstrip('.')})" if why else "")


def explain_no_restart(cause: Cause, scheduling: Scheduling, budgets: Budgets) -> str:
    """Return why there is no further restart, as the end of a sentence."""
    if scheduling.disable_retries:
        return "disableRetries forbids another"
    budget = budget_of(cause, scheduling, budgets)
    return f"all {budget} restarts are used up" if budget else "the job may not be restarted"
