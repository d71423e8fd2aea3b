"""Decides from facts what a warden must do next: a table without processes and sockets."""

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple


class Duty(enum.Enum):
    """A step that a warden does once; if several are due, in this order."""

    TELL_FAULT = "tell the launcher that the replica cannot be started"
    TELL_START = "tell the launcher that the replica runs"
    TELL_EXIT = "write the exit to the attempt's folder and report it to the launcher"
    TELL_EMPTY = "tell the launcher that no process is left"
    LEAVE = "exit"


class WardenFacts(NamedTuple):
    """The state of a warden's replica and of its launcher."""

    has_fault: bool
    """Whether the replica could not be started."""
    has_started: bool
    has_exited: bool
    is_ordered: bool
    """Whether the launcher has ordered the end of the replica, or the warden has decided it."""
    has_launcher: bool
    """Whether the connection to the launcher is open."""


_Done = Collection[Duty]
_IS_DUE: Final[Mapping[Duty, Callable[[WardenFacts, _Done], bool]]] = {
    Duty.TELL_FAULT: lambda facts, done: facts.has_fault and Duty.TELL_START not in done,
    Duty.TELL_START: lambda facts, done: facts.has_started and Duty.TELL_FAULT not in done,
    Duty.TELL_EXIT: lambda facts, _: facts.has_exited,
    Duty.TELL_EMPTY: lambda facts, _: facts.is_ordered,
    # a launcher orders its warden to exit; without a launcher the warden exits by itself
    Duty.LEAVE: lambda facts, done: not facts.has_launcher and Duty.TELL_EMPTY in done,
}


def list_due(collect_facts: Callable[[], WardenFacts], done: _Done) -> Iterator[Duty]:
    """Yield the duties that are due; each may change the facts and ``done`` for the next duty."""
    for duty in Duty:
        if duty not in done and _IS_DUE[duty](collect_facts(), done):
            yield duty
