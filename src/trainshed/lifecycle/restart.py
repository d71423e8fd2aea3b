"""Whether a job whose attempt was lost may try once more.

Only machines count here: a program that fails has ended, and was not lost.  The budget of the
machines and that of the program are separate (DESIGN 5.11); so far every restart is of the first
sort, so the number of the attempt says how many were used.
"""

from typing import Final

from trainshed.lifecycle.events import GaveUp, RestartGranted

#: How often a job may lose its attempt and be started again.
INFRA_RESTARTS_MAX: Final = 3


def after_loss(
    attempt: int, cause: str, *, restarts_max: int = INFRA_RESTARTS_MAX
) -> RestartGranted | GaveUp:
    """What a proven loss of an attempt means; ``cause`` is a sentence without its full stop."""
    if attempt <= restarts_max:
        return RestartGranted()
    used = f"all {restarts_max} restarts are used up" if restarts_max else "it may not be restarted"
    return GaveUp(message=f"{lost(attempt, cause)}, and {used}.")


def lost(attempt: int, cause: str) -> str:
    """``Attempt 2 was lost (the machine was restarted)``."""
    return f"Attempt {attempt} was lost" + (f" ({cause.rstrip('.')})" if cause else "")
