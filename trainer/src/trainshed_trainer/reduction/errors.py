"""The errors of an all-reduce and the participant at fault (docs/sources/reduction.md 5)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

#: The index of a reducer that speaks of itself: a worker's own does not know its place.
ITSELF = -1


class Kind(IntEnum):
    """The replica that caused a fault."""

    NOBODY = 0
    WORKER = 1
    REDUCER = 2


class Culprit(NamedTuple):
    """A worker by its rank, or a reducer by its place in the list of all."""

    kind: Kind
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used

    def __str__(self) -> str:
        """As it is named to people: ``worker 3``."""
        return f"{self.kind.name.lower()} {self.index}"


class ReductionError(RuntimeError):
    """An all-reduce that has no sum: the buffers of its round hold nothing of use.

    ``culprit`` names who was lost or broke the protocol, as in ``worker 3``; ``None`` where nobody
    of the group did.  ``round`` counts all-reduces of the group from 0; ``None`` outside of one.
    """

    def __init__(
        self, text: str, *, blame: Culprit | None = None, round_: int | None = None
    ) -> None:
        """Say ``text`` to whoever catches it, with the culprit and the round as values beside."""
        super().__init__(text)
        self.blame = blame
        self.round = round_

    @property
    def culprit(self) -> str | None:
        """Return the culprit in words."""
        return str(self.blame) if self.blame else None


def of_itself(text: str) -> ReductionError:
    """A reducer's own fault; ``text`` says what it did, and whoever hears it knows who that was."""
    return ReductionError(text, blame=Culprit(Kind.REDUCER, ITSELF))


def heard_from(culprit: Culprit, error: ReductionError) -> ReductionError:
    """``error`` as ``culprit`` said it, with its name where it spoke of itself."""
    if error.blame is None or error.blame.index != ITSELF:
        return error
    return ReductionError(f"{culprit} {error}", blame=culprit, round_=error.round)
