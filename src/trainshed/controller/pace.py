"""How often the controller looks, and how much at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The controller's settings; tests make them small."""

    tick_s: float = 0.25
    """How long a thread waits when nobody wakes it."""
    observe_s: float = 0.1
    """How long a change at the engine may stay unseen on an idle server."""
    lease_ttl_s: float = 10.0
    """How long a server that says nothing is taken for alive."""
    fleet_s: float = 5.0
    """How often the engine is asked for its nodes."""
    deadlines_s: float = 1.0
    """How much longer than it may a job may wait or run."""
    maintain_s: float = 0.5
    """How long jobs on a node that goes into maintenance may wait for their notice."""
    studies_s: float = 1.0
    """How long what a trial has reported may stay unread."""
    slow_s: float = 5.0
    """How often waiting jobs are looked at though nothing has changed: time alone ends
    reservations."""
    grace_s: float = 10.0
    """What replicas get between being asked to end and being killed."""
    window: int = 2000
    """How many waiting jobs one pass of the scheduler looks at."""
    batch: int = 100
    """Steps a transaction: the one writer of SQLite is shared with those who submit."""
