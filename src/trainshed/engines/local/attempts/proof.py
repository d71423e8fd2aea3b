"""What can be proven of an attempt on this machine: a pure function from facts to a decision.

``attempt.TrackedAttempt`` reads the facts and performs the decision.
"""

import enum
from dataclasses import dataclass
from typing import Final

from trainshed.engines.supervise.record.folder import Order

#: A supervisor that has not begun after this time, and is no child of ours, is given up (fenced).
BEGIN_S_MAX: Final = 60.0
#: How much longer than its grace a supervisor may stand still before it is killed.
STILL_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look has read, as far as it is needed."""

    has_ended: bool = False
    """Whether its records tell an end."""
    lives: bool = False
    """Whether its supervisor lives."""
    still_s: float | None = None
    """How long the supervisor is suspended though it was ordered to end; None: it is not."""
    order: Order | None = None
    was_begun: bool = False
    """Whether a supervisor has begun, or has taken the lock and was about to."""
    has_decided: bool = False
    """Whether its records tell how it was to end."""
    is_clean: bool | None = None
    """Whether nothing that its supervisor left lives; None: it was not looked for yet."""
    has_plan: bool = False
    was_ours: bool = False
    """Whether this process has started the supervisor: it then knows that it has ended."""
    waited_s: float = 0.0
    """Seconds since this process first read a plan that no supervisor has taken."""


class Decision(enum.Enum):
    """What is said of an attempt, or what is to be done first."""

    RECORDED = "RECORDED"
    """Its records hold."""
    KILL = "KILL"
    """Its supervisor obeys no order and is killed; its records hold until it is gone."""
    SWEEP = "SWEEP"
    """Look for what its supervisor left, and decide again."""
    UNKNOWN = "UNKNOWN"
    ENDED_AS_DECIDED = "ENDED_AS_DECIDED"
    LOST = "LOST"
    """Its supervisor was killed."""
    NEVER_BEGAN = "NEVER_BEGAN"
    STOPPED_EARLY = "STOPPED_EARLY"
    """It was ordered to end before it began."""
    GIVE_UP = "GIVE_UP"
    """Its supervisor may not begin from now on; the next look finds that it never began."""


def what_is_proven(facts: Facts) -> Decision:
    """Decide what can be said of an attempt now."""
    if facts.has_ended:
        return Decision.RECORDED
    if facts.lives:
        return Decision.KILL if _obeys_no_order(facts) else Decision.RECORDED
    return _judge_remains(facts) if facts.was_begun else _judge_never_begun(facts)


def _obeys_no_order(facts: Facts) -> bool:
    if facts.still_s is None or facts.order is None:
        return False
    return facts.still_s >= facts.order.grace_s + STILL_S_MAX


def _judge_remains(facts: Facts) -> Decision:
    """Its supervisor is gone and recorded no end."""
    if facts.is_clean is None:
        return Decision.SWEEP
    if not facts.is_clean:
        return Decision.UNKNOWN
    return Decision.ENDED_AS_DECIDED if facts.has_decided else Decision.LOST


def _judge_never_begun(facts: Facts) -> Decision:
    if facts.order is not None:
        return Decision.NEVER_BEGAN if facts.order.lost else Decision.STOPPED_EARLY
    if not facts.has_plan:
        return Decision.UNKNOWN
    is_late = facts.was_ours or facts.waited_s >= BEGIN_S_MAX
    return Decision.GIVE_UP if is_late else Decision.RECORDED
