"""Decides when a job is over, with which exit code and message.

The primary's end decides.  A replica that fails before it ends the job at once: the others would
wait for it in a collective that never completes.  Of several failures the first observed one
counts, because the others are mostly its consequences.  A replica other than the primary that ends
with 0 has finished its work.  The supervisor applies this rule, so it is in the model (decision
0029).
"""

import signal
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from trainshed.model.attempt import ReplicaExit
from trainshed.model.exit_status import SIGNAL_BASE
from trainshed.model.exits import describe_exit, signal_name
from trainshed.model.roles import Role

_LAST_WORDS_MAX: Final = 200
#: pip's notices about itself, which are its last lines also after an error.
_PIP_ASIDES: Final = (
    "[notice] ",
    "WARNING: Running pip as the 'root' user",
    "WARNING: You are using pip version",
    "You should consider upgrading via the",
)


class JobEnd(NamedTuple):
    """A job's exit code, and the replica or signal that decided it."""

    exit_code: int
    decider: ReplicaExit | None = None
    signum: signal.Signals | None = None
    reason: str = ""


def job_end(primary: str, exits: Sequence[ReplicaExit]) -> JobEnd | None:
    """Return the end after these exits, in order of observation; None if the job continues.

    ``primary`` is the task name of the replica whose end decides.
    """
    own_exits = [e for e in exits if not e.stopped_by_us]
    primary_exit = next((e for e in own_exits if e.task_name == primary), None)
    if primary_exit is not None and primary_exit.status == 0:
        return JobEnd(exit_code=0, decider=primary_exit)
    failed = next((e for e in own_exits if e.status != 0), None)
    return None if failed is None else JobEnd(exit_code=failed.status, decider=failed)


def interrupted(signum: signal.Signals, reason: str = "") -> JobEnd:
    """Return the end of a job after a signal to the launcher, or a stop order with a reason."""
    return JobEnd(exit_code=SIGNAL_BASE + signum, signum=signum, reason=reason)


def output_gone(error: OSError) -> JobEnd:
    """Return the end of a job whose output cannot be written."""
    cause = "the output was closed by its reader"
    if not isinstance(error, BrokenPipeError):
        cause = f"the output cannot be written: {error.strerror or error}"
    return JobEnd(exit_code=SIGNAL_BASE + signal.SIGPIPE, reason=f"{cause}; the job was ended")


def may_end_together(roles: Iterable[Role]) -> bool:
    """Whether workers may end by themselves after the primary, without a stop order.

    Replicas of an all-reduce job finish the same last step; workers of a job with parameter servers
    may run servers.  ``roles`` has the role of every replica.
    """
    return Role.PARAMETER_SERVER not in roles


def ends_by_itself(role: Role) -> bool:
    """Whether to wait for a replica when the primary has ended; not for a reducer."""
    return role is not Role.REDUCER


def message(end: JobEnd, words: str = "", ending: str = "") -> str:
    """Return the line that says how the job ended; ``words`` come from ``words_of``.

    ``ending`` describes how the deciding replica ended, if more than its exit is known.
    """
    if end.decider is None:
        return end.reason or f"stopped by {signal_name(end.signum or 0)}"
    decider = end.decider
    text = f"{decider.task_name} {ending or describe_exit(decider)} after {decider.seconds:.1f} s"
    return f"{text}: {words}" if words and end.exit_code else text


def words_of(lines: Sequence[str], advice: str = "") -> str:
    """Return a failed replica's last line about its failure, and what helps if it is known."""
    relevant = (line for line in reversed(lines) if not line.startswith(_PIP_ASIDES))
    words = next(relevant, lines[-1] if lines else "")[:_LAST_WORDS_MAX]
    return f"{words} ({advice})" if advice else words
