"""When a job is over, with which code, and in which words (R11).

The primary's end decides.  A replica that fails before it ends the job at once: the others would
wait for it in a collective that never completes.  Of several failures the one seen first counts,
since the others are mostly its consequences.  A replica other than the primary that ends with 0 has
done its part.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from trainshed.model.attempt import SIGNAL_BASE, ReplicaExit
from trainshed.model.roles import Role

_LAST_WORDS_MAX: Final = 200


class Verdict(NamedTuple):
    """What a job's exit code will be, and which replica or signal decided it."""

    exit_code: int
    decider: ReplicaExit | None = None
    signum: signal.Signals | None = None
    reason: str = ""


def judge(primary: str, exits: Sequence[ReplicaExit]) -> Verdict | None:
    """The verdict after these exits, in the order in which they were seen; None: go on.

    ``primary`` is the task name of the replica whose end decides.
    """
    own = [e for e in exits if not e.stopped_by_us]
    ended = next((e for e in own if e.task_name == primary), None)
    if ended is not None and ended.status == 0:
        return Verdict(exit_code=0, decider=ended)
    failed = next((e for e in own if e.status != 0), None)
    return None if failed is None else Verdict(exit_code=failed.status, decider=failed)


def interrupted(signum: signal.Signals, reason: str = "") -> Verdict:
    """The verdict when a signal told the launcher to end, or an order with a reason of its own."""
    return Verdict(exit_code=SIGNAL_BASE + signum, signum=signum, reason=reason)


def output_gone(error: OSError) -> Verdict:
    """The verdict when the output has nowhere to go, with what its writing failed of."""
    cause = "the output was closed by its reader"
    if not isinstance(error, BrokenPipeError):
        cause = f"the output cannot be written: {error.strerror or error}"
    return Verdict(exit_code=SIGNAL_BASE + signal.SIGPIPE, reason=f"{cause}; the job was ended")


def may_end_together(roles: Iterable[Role]) -> bool:
    """Whether workers are expected to end when the primary does, rather than to be stopped.

    Replicas of an all-reduce job finish the same last step; workers beside parameter servers may be
    servers themselves.  ``roles`` are those of all replicas.
    """
    return Role.PARAMETER_SERVER not in roles


def ends_by_itself(role: Role) -> bool:
    """Whether a replica is waited for when the primary has ended: a reducer serves until told."""
    return role is not Role.REDUCER


def message(verdict: Verdict, last_words: Mapping[str, str], how: str = "") -> str:
    """The one line that says how the job ended; ``last_words`` by task name.

    ``how`` is what to say of the deciding replica, where more is known than its exit.
    """
    if verdict.decider is None:
        return verdict.reason or f"stopped by {signal_name(verdict.signum or 0)}"
    decider = verdict.decider
    text = f"{decider.task_name} {how or _how(decider)} after {decider.seconds:.1f} s"
    said = words_of(verdict, last_words)
    return f"{text}: {said}" if said else text


def words_of(verdict: Verdict, last_words: Mapping[str, str]) -> str:
    """What the replica that made a job fail wrote last; empty for any other end."""
    if verdict.decider is None or not verdict.exit_code:
        return ""
    return last_words.get(verdict.decider.task_name, "")[:_LAST_WORDS_MAX]


def _how(ended: ReplicaExit) -> str:
    if ended.signal is None:
        return f"exited with code {ended.exit_code}"
    cause = " (out of memory?)" if ended.signal == signal.SIGKILL else ""
    return f"was killed by {signal_name(ended.signal)}{cause}"


def signal_name(number: int) -> str:
    """The name of a signal; a real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
