"""Decides the exit status of a warden that is the first process of a container."""

from typing import Final, NamedTuple

from trainshed.model.attempt import ReplicaExit

#: The status of a warden without a program that has ended by the rules of its attempt.
FAILED: Final = 1


class WardenEnd(NamedTuple):
    """What a warden knows about its replica and its attempt when it exits."""

    replica_exit: ReplicaExit | None
    """None: the replica did not start, or has not ended."""
    is_dismissed: bool
    """Whether the launcher has ordered the exit; otherwise the launcher is lost."""
    is_success: bool
    """Whether the job has succeeded."""


def choose_status(end: WardenEnd) -> int:
    """Choose the exit status: that of the program, 128 + N after signal N.

    A program that was stopped because its job has succeeded, such as a parameter server, counts as
    succeeded: a cluster would otherwise count the job as failed.
    """
    if end.replica_exit is None or not end.is_dismissed:
        return FAILED
    if end.is_success and end.replica_exit.stopped_by_us:
        return 0
    return end.replica_exit.status
