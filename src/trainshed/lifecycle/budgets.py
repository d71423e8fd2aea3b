"""How many restarts a job has for a cause (R11, R20, DESIGN 5.11)."""

from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause


def budget_of(cause: Cause, scheduling: Scheduling, budgets: Budgets) -> int | None:
    """The budget of a job; None is no limit.

    ``disableRetries`` takes all of them: the job says that it must not be run twice
    (contracts/vertex-sdk.md 8).  ``restartJobOnWorkerRestart`` and ``resilientToWorkerRestart``
    take and give nothing: every restart here is one of the whole job, which is what they ask for.
    """
    return 0 if scheduling.disable_retries else budgets.of(cause)
