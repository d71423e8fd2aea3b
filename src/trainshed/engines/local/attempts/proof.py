"""Decides the state of an attempt on this machine: a pure function from facts to a decision.

``attempt.TrackedAttempt`` reads the facts and performs the decision.
"""

import enum
from dataclasses import dataclass
from typing import Final

from trainshed.engines.supervise.record.folder import Order

#: Seconds after which a supervisor that another server started, and that has not begun, counts as
#: lost.
BEGIN_S_MAX: Final = 60.0
#: Seconds after its grace period until a suspended supervisor is killed.
SUSPENDED_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """The facts about an attempt that one observation has read."""

    has_ended: bool = False
    """Whether its records contain an end."""
    lives: bool = False
    """Whether its supervisor lives."""
    suspended_s: float | None = None
    """Seconds for which the supervisor is suspended after an order to end; None: it is not."""
    order: Order | None = None
    was_begun: bool = False
    """Whether a supervisor has begun, or has locked the folder to begin."""
    has_decided: bool = False
    """Whether its records contain the decision about its end."""
    is_clean: bool | None = None
    """Whether no leftover process of its supervisor runs; None: not searched yet."""
    has_plan: bool = False
    was_ours: bool = False
    """Whether this process has started the supervisor, and so notices its end."""
    waited_s: float = 0.0
    """Seconds since this process first read a plan that no supervisor has taken."""


class LocalDecision(enum.Enum):
    """The state of an attempt to report, or an action that must come first."""

    RECORDED = "RECORDED"
    """Report its records."""
    KILL = "KILL"
    """Kill its supervisor, which ignores its order; report its records until it has ended."""
    SWEEP = "SWEEP"
    """End the processes that its supervisor left, and decide again."""
    UNKNOWN = "UNKNOWN"
    ENDED_AS_DECIDED = "ENDED_AS_DECIDED"
    LOST = "LOST"
    """Its supervisor was killed."""
    NEVER_BEGAN = "NEVER_BEGAN"
    STOPPED_EARLY = "STOPPED_EARLY"
    """The attempt was ordered to end before it began."""
    GIVE_UP = "GIVE_UP"
    """Prevent the start of its supervisor; the next observation reports NEVER_BEGAN."""


def what_is_proven(facts: LocalFacts) -> LocalDecision:
    """Decide which state of an attempt to report, or which action must come first."""
    if facts.has_ended:
        return LocalDecision.RECORDED
    if facts.lives:
        return LocalDecision.KILL if _obeys_no_order(facts) else LocalDecision.RECORDED
    return _judge_remains(facts) if facts.was_begun else _judge_never_begun(facts)


def _obeys_no_order(facts: LocalFacts) -> bool:
    if facts.suspended_s is None or facts.order is None:
        return False
    return facts.suspended_s >= facts.order.grace_s + SUSPENDED_S_MAX


def _judge_remains(facts: LocalFacts) -> LocalDecision:
    """Decide for a supervisor that has ended without a record of the end."""
    if facts.is_clean is None:
        return LocalDecision.SWEEP
    if not facts.is_clean:
        return LocalDecision.UNKNOWN
    return LocalDecision.ENDED_AS_DECIDED if facts.has_decided else LocalDecision.LOST


def _judge_never_begun(facts: LocalFacts) -> LocalDecision:
    if facts.order is not None:
        return LocalDecision.NEVER_BEGAN if facts.order.lost else LocalDecision.STOPPED_EARLY
    if not facts.has_plan:
        return LocalDecision.UNKNOWN
    is_late = facts.was_ours or facts.waited_s >= BEGIN_S_MAX
    return LocalDecision.GIVE_UP if is_late else LocalDecision.RECORDED
