"""When a job is over, with which code, and in which words (R11).

The primary's end decides.  A replica that fails before it ends the job at once: the others would
wait for it in a collective that never completes.  Of several failures the one seen first counts,
since the others are mostly its consequences.  A replica other than the primary that ends with 0 has
done its part.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainshed.engines.base import SIGNAL_BASE, ReplicaExit
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.roles import Role

_LAST_WORDS_MAX = 200

#: Roles that serve others and never end by themselves.
SERVERS = frozenset({Role.PARAMETER_SERVER, Role.REDUCER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a job's exit code will be, and which replica or signal decided it."""

    exit_code: int
    decider: ReplicaExit | None = None
    signum: signal.Signals | None = None
    reason: str = ""


def judge(plan: LaunchPlan, exits: Sequence[ReplicaExit]) -> Verdict | None:
    """The verdict after these exits, in the order in which they were seen; None: go on."""
    own = [e for e in exits if not e.stopped_by_us]
    primary = next((e for e in own if e.task_name == plan.primary.task_name), None)
    if primary is not None and primary.status == 0:
        return Verdict(exit_code=0, decider=primary)
    failed = next((e for e in own if e.status != 0), None)
    return None if failed is None else Verdict(exit_code=failed.status, decider=failed)


def interrupted(signum: signal.Signals) -> Verdict:
    """The verdict when a signal told the launcher to end."""
    return Verdict(exit_code=SIGNAL_BASE + signum, signum=signum)


def output_gone(error: OSError) -> Verdict:
    """The verdict when the output has nowhere to go, with what its writing failed of."""
    cause = "the output was closed by its reader"
    if not isinstance(error, BrokenPipeError):
        cause = f"the output cannot be written: {error.strerror or error}"
    return Verdict(exit_code=SIGNAL_BASE + signal.SIGPIPE, reason=f"{cause}; the job was ended")


def may_end_together(plan: LaunchPlan) -> bool:
    """Whether workers are expected to end when the primary does, rather than to be stopped.

    Replicas of an all-reduce job finish the same last step; workers beside parameter servers may be
    servers themselves.
    """
    return not any(replica.role in SERVERS for replica in plan.replicas)


def message(verdict: Verdict, last_words: Mapping[str, str]) -> str:
    """The one line that says how the job ended; ``last_words`` by task name."""
    if verdict.signum is not None:
        return f"stopped by {verdict.signum.name}"
    if verdict.decider is None:
        return verdict.reason
    text = f"{_how(verdict.decider)} after {verdict.decider.seconds:.1f} s"
    said = words_of(verdict, last_words)
    return f"{text}: {said}" if said else text


def words_of(verdict: Verdict, last_words: Mapping[str, str]) -> str:
    """What the replica that made a job fail wrote last; empty for any other end."""
    if verdict.decider is None or not verdict.exit_code:
        return ""
    return last_words.get(verdict.decider.task_name, "")[:_LAST_WORDS_MAX]


def _how(ended: ReplicaExit) -> str:
    if ended.signal is None:
        return f"{ended.task_name} exited with code {ended.exit_code}"
    name = signal_name(ended.signal)
    cause = " (out of memory?)" if ended.signal == signal.SIGKILL else ""
    return f"{ended.task_name} was killed by {name}{cause}"


def signal_name(number: int) -> str:
    """The name of a signal; a real-time signal has only its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
