"""The errors of an all-reduce and the participant at fault (docs/sources/reduction.md 5)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

#: The index in an error that a reducer reports about itself: it may not know its own index.
ITSELF = -1


class Kind(IntEnum):
    """The replica that caused a fault."""

    NOBODY = 0
    WORKER = 1
    REDUCER = 2


class Culprit(NamedTuple):
    """The participant at fault: a worker by its rank, or a reducer by its index in the list."""

    kind: Kind
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used

    def __str__(self) -> str:
        """Return the name for messages, such as ``worker 3``."""
        return f"{self.kind.name.lower()} {self.index}"


class ReductionError(RuntimeError):
    """An all-reduce failed: the contents of the buffers of its round are undefined.

    ``culprit`` names the participant that was lost or broke the protocol, such as ``worker 3``;
    ``None`` if no participant did.  ``round`` counts the group's all-reduces from 0; ``None``
    outside of an all-reduce.
    """

    def __init__(
        self, text: str, *, blame: Culprit | None = None, round_: int | None = None
    ) -> None:
        """Set the message, the participant at fault and the round."""
        super().__init__(text)
        self.blame = blame
        self.round = round_

    @property
    def culprit(self) -> str | None:
        """Return the name of the participant at fault."""
        return str(self.blame) if self.blame else None


def reducer_error(text: str) -> ReductionError:
    """Return a reducer's error about itself; the receiver adds the reducer's name to ``text``."""
    return ReductionError(text, blame=Culprit(Kind.REDUCER, ITSELF))


def name_culprit(culprit: Culprit, error: ReductionError) -> ReductionError:
    """Return ``error``, which ``culprit`` sent; add the sender's name if the sender is at fault."""
    if error.blame is None or error.blame.index != ITSELF:
        return error
    return ReductionError(f"{culprit} {error}", blame=culprit, round_=error.round)
