"""What a check is, and what it finds."""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trainshed.workbench.doctor.snapshot import Snapshot


class Part(enum.Enum):
    """What a check must have seen."""

    ROWS = "the database"
    DISK = "the data directory"
    PROCESSES = "the processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    ``subject`` is the job, attempt or file that it is about: the same thing is known again by it.
    """

    subject: str
    text: str
    advice: str
    is_failure: bool = True
    """False for a remark: worth knowing, and no promise is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise, and how its breaches are found.  ``name`` is its id in docs/invariants.md."""

    name: str
    promise: str
    parts: frozenset[Part]
    find: Callable[[Snapshot], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a check."""

    check: Check
    findings: tuple[Finding, ...] = ()
    unseen: str = ""
    """Why it could not be made; empty where it was."""

    @property
    def word(self) -> str:
        """``ok``, ``noted``, ``FAILED`` or ``unseen``."""
        if self.unseen:
            return "unseen"
        if any(found.is_failure for found in self.findings):
            return "FAILED"
        return "noted" if self.findings else "ok"


def check(
    name: str, promise: str, *parts: Part
) -> Callable[[Callable[[Snapshot], Iterable[Finding]]], Check]:
    """Make a function over a snapshot a check."""

    def made(find: Callable[[Snapshot], Iterable[Finding]]) -> Check:
        return Check(name=name, promise=promise, parts=frozenset(parts), find=find)

    return made
