"""The records of an attempt, which its supervisor appends to a file, one JSON line each.

A reader remembers its offset and continues from there.  It skips lines that a full disk or a power
cut has cut off.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Optional, Union

from trainshed.model import codec
from trainshed.model.attempt import Hang, Outcome

_PRIVATE_FILE: Final = 0o600


class Began(NamedTuple):
    """A supervisor runs the attempt; there will be no second one."""

    pid: int
    start_ticks: int
    """When the process started (proc(5), field 22); a later process with its pid has another."""
    boot_id: str
    places: Mapping[str, Any] = {}
    """Where to find processes that remain if the supervisor is killed (``leftovers``)."""


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
    """Whether an order to stop ended the attempt, and not the job itself."""


class Ended(NamedTuple):
    """No process of the attempt lives and its log is complete."""

    outcome: Outcome
    fault: Optional[str] = None
    """Why the attempt could not start, or why its outcome is unknown."""
    lost: bool = False
    """Whether the fault was the machine's and not the job's: the server may try again."""


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
