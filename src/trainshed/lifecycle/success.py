"""When a job is over: the primary's end decides, a failed peer ends the job at once (R11).

Parameter servers and workers often never return; a peer that ends well changes nothing.
"""

from trainshed.lifecycle.events import Event, GaveUp, PrimarySucceeded
from trainshed.model.roles import Role


def after_exit(role: Role, task_name: str, exit_code: int) -> Event | None:
    """What a replica's exit means for its job; None when the job goes on.

    ``exit_code`` is the process's own; a death by signal N counts as 128 + N.
    """
    if exit_code != 0:
        return GaveUp(
            message=f"The replica {task_name} exited with a non-zero status of {exit_code}."
        )
    return PrimarySucceeded() if role is Role.PRIMARY else None
