"""What the number says with which a program has failed.

AI Platform Training told them apart, and Kubernetes' training operators still do: up to 128 the
program has said that it cannot go on; above it a signal has ended it, which may not happen again.
"""

import enum

from trainshed.model.attempt import SIGNAL_BASE


class ExitClass(enum.Enum):
    """What may be tried after an end."""

    SUCCESS = "success"
    PERMANENT = "permanent"
    """The same would happen again."""
    RECOVERABLE = "recoverable"
    """It may be restarted, within the budget of the program."""


def class_of(status: int) -> ExitClass:
    """The class of an exit as a shell counts it: the code, or 128 + the signal."""
    if status == 0:
        return ExitClass.SUCCESS
    return ExitClass.RECOVERABLE if status > SIGNAL_BASE else ExitClass.PERMANENT
