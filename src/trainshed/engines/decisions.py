"""The decisions about an attempt on a cluster that has a queue of its own.

Each engine reads its own facts and has its own rules; the decisions are the same for all clusters.
"""

from typing import Final, NamedTuple

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.supervise.record.folder import Order
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
    """The end unless the records show another; None: the attempt was lost, for ``why``."""


def give_up(  # noqa: PLR0913 - what a cluster knows of an end
    why: str,
    last_words: str,
    *,
    has_ended: bool,
    has_decided: bool,
    end: EndByCluster | None = None,
    nodes: tuple[str, ...] = (),
) -> Recorded | Over:
    """Decide the end of an attempt that can write no more records.

    Without an end in the records it is ``end``, or a loss for the reason ``why``, after which the
    next attempt should avoid ``nodes``.
    """
    if has_ended:
        return Recorded()
    if has_decided:
        return Over(STANDS)
    if end is None:
        fault = f"{why}: {last_words}" if last_words else why
        end = EndByCluster(fault=fault, loss=Loss.INFRA, nodes=nodes)
    return Over(end, takes_claim=True)


def end_early(order: Order) -> EndByCluster:
    """Return the end of an attempt that was ordered to end before it began."""
    if order.lost:
        return EndByCluster("the attempt was given up before it began", Loss.INFRA)
    return EndByCluster(early=True)
