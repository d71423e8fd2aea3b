"""Decides what is proven of an attempt on this machine: a pure function from facts to a decision.

``attempt.TrackedAttempt`` reads the facts and performs the decision.
"""

import enum
from dataclasses import dataclass
from typing import Final

from trainshed.engines.supervise.record.folder import Order

#: A supervisor that has not begun after this time, and was started by another server, is given up.
BEGIN_S_MAX: Final = 60.0
#: How much longer than its grace a supervisor may stand still before it is killed.
SUSPENDED_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """What one observation has read, as far as it is needed."""

    has_ended: bool = False
    """Whether its records contain an end."""
    lives: bool = False
    """Whether its supervisor lives."""
    suspended_s: float | None = None
    """How long the supervisor is suspended though it was ordered to end; None: it is not."""
    order: Order | None = None
    was_begun: bool = False
    """Whether a supervisor has begun, or has taken the lock and was about to."""
    has_decided: bool = False
    """Whether its records contain how it is to end."""
    is_clean: bool | None = None
    """Whether no process that its supervisor left lives; None: not searched yet."""
    has_plan: bool = False
    was_ours: bool = False
    """Whether this process has started the supervisor, and so knows that it has ended."""
    waited_s: float = 0.0
    """Seconds since this process first read a plan that no supervisor has taken."""


class LocalDecision(enum.Enum):
    """What to report of an attempt, or what to do first."""

    RECORDED = "RECORDED"
    """Report its records."""
    KILL = "KILL"
    """Kill its supervisor, which obeys no order; report its records until it has ended."""
    SWEEP = "SWEEP"
    """End the processes that its supervisor left, and decide again."""
    UNKNOWN = "UNKNOWN"
    ENDED_AS_DECIDED = "ENDED_AS_DECIDED"
    LOST = "LOST"
    """Its supervisor was killed."""
    NEVER_BEGAN = "NEVER_BEGAN"
    STOPPED_EARLY = "STOPPED_EARLY"
    """It was ordered to end before it began."""
    GIVE_UP = "GIVE_UP"
    """Forbid its supervisor to begin; the next observation reports that it never began."""


def what_is_proven(facts: LocalFacts) -> LocalDecision:
    """Decide what to report of an attempt now."""
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
    """Decide for a supervisor that has ended and recorded no end."""
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
