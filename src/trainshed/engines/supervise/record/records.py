"""The records of an attempt, which its supervisor appends to a file, one JSON line each.

A reader remembers its offset and continues from there.  It skips lines that a full disk or a power
cut has cut off.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Optional, Union

from trainshed.model import codec
from trainshed.model.attempt import Hang, Outcome

_PRIVATE_FILE: Final = 0o600


class Began(NamedTuple):
    """A supervisor runs the attempt; no second supervisor will run it."""

    pid: int
    start_ticks: int
    """The start time of the process, in clock ticks after the boot (proc(5), field 22).

    A later process with the same pid has another start time.
    """
    boot_id: str
    places: Mapping[str, Any] = {}
    """The boxes that may contain processes if the supervisor is killed (``leftovers``)."""


class Ready(NamedTuple):
    """Every replica has been started."""

    task_names: tuple[str, ...]


class Recovered(NamedTuple):
    """A replica that hung makes progress again."""

    task_name: str


class Decided(NamedTuple):
    """The supervisor has decided the outcome, and now stops the replicas."""

    exit_code: int
    message: str
    last_words: str = ""
    interrupted: bool = False
    """Whether an order to stop ended the attempt; False: the program ended by itself."""


class Ended(NamedTuple):
    """No process of the attempt lives and its log is complete."""

    outcome: Outcome
    fault: Optional[str] = None
    """The reason if the attempt could not start or its outcome is unknown; else None."""
    lost: bool = False
    """Whether the machine, not the job, caused the fault: the server may start another attempt."""
    nodes: tuple[str, ...] = ()
    """The nodes that caused a loss, by the cluster's names; empty: unknown."""
    reached: tuple[str, ...] = ()
    """The nodes whose wardens had connected, if wardens of other nodes never did."""


Record = Union[Began, Ready, Hang, Recovered, Decided, Ended]
#: The kinds of records, by the field ``is`` of their lines.
_KINDS: Final[Mapping[str, type[Record]]] = {
    "Began": Began,
    "Ready": Ready,
    "Hung": Hang,
    "Recovered": Recovered,
    "Decided": Decided,
    "Ended": Ended,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def append(path: str, record: Record, *, durably: bool) -> None:
    """Append a record; with ``durably``, return when it survives a power cut.  Raises OSError.

    The line begins with a newline, which ends a line that an earlier try has cut off.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, _PRIVATE_FILE)
    try:
        data = memoryview(b"\n" + encode(record) + b"\n")
        while data:
            data = data[os.write(descriptor, data) :]
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def encode(record: Record) -> bytes:
    """Return a record as one line, without its newline."""
    return json.dumps({"is": _NAMES[type(record)], **codec.encode(record)}).encode()


def decode(line: bytes) -> Record:
    """Parse a line.  Raises ValueError, KeyError or TypeError if it is not a record."""
    fields = json.loads(line)
    return codec.decode(_KINDS[fields["is"]], fields)


def decode_all(data: bytes) -> Iterator[Record]:
    """Parse the lines of a file of records; skip lines that are not records."""
    for line in data.split(b"\n"):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            yield decode(line)
