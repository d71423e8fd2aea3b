"""The decisions about an attempt on a cluster that has a queue of its own.

Each engine reads its own facts and has its own rules; the decisions are the same for all clusters.
"""

from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.model.attempt import Loss
from trainshed.model.explanation import Explanation

#: The end in the records is the attempt's end.
STANDS: Final = EndByCluster(stands=True)


class Unknown(NamedTuple):
    """The state of the attempt is unknown."""

    waits: Explanation | None = None


class Waits(NamedTuple):
    """The attempt waits in the cluster's queue."""

    waits: Explanation


class Runs(NamedTuple):
    """The attempt runs; an end in its records does not count yet."""

    waits: Explanation | None = None


class Recorded(NamedTuple):
    """The attempt has ended as its records show."""


class Over(NamedTuple):
    """The attempt has ended."""

    end: EndByCluster
    takes_claim: bool = False
    """Whether to take the claim first, so that no job begins the attempt later."""
    is_written: bool = False
    """Whether the end is stored already, or need not be stored."""


class TakeClaim(NamedTuple):
    """Try to take the claim, and decide again."""


class GiveUp(NamedTuple):
    """Read the records a last time, then decide with ``give_up``."""

    why: str
    end: EndByCluster | None = None
    """The end unless the records show another; None: the attempt was lost because of ``why``."""


def give_up(
    decision: GiveUp, last_words: str, *, has_ended: bool, has_decided: bool
) -> Recorded | Over:
    """Decide the end of an attempt that can write no more records."""
    if has_ended:
        return Recorded()
    if has_decided:
        return Over(STANDS)
    if decision.end is not None:
        return Over(decision.end, takes_claim=True)
    fault = f"{decision.why}: {last_words}" if last_words else decision.why
    return Over(EndByCluster(fault=fault, loss=Loss.INFRA), takes_claim=True)
