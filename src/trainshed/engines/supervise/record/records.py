"""What a supervisor tells of its attempt, one JSON line each, only ever appended.

A reader keeps an offset and continues from there.  Lines that were torn by a full disk or a
power cut do not count.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Optional, Union

from trainshed.model import codec
from trainshed.model.attempt import Hang, Outcome

_PRIVATE_FILE: Final = 0o600


class Began(NamedTuple):
    """A supervisor has taken the attempt; there will be no second one."""

    pid: int
    start_ticks: int
    """When the process was started (proc(5), field 22): tells it from a later one of its pid."""
    boot_id: str
    places: Mapping[str, Any] = {}
    """Where to look for what it may leave behind if it is killed (``leftovers``)."""


class Ready(NamedTuple):
    """Every replica has been started."""

    task_names: tuple[str, ...]


class Recovered(NamedTuple):
    """A replica that hung has shown a sign again."""

    task_name: str


class Decided(NamedTuple):
    """How it will end is certain; replicas are being stopped."""

    exit_code: int
    message: str
    last_words: str = ""
    interrupted: bool = False
    """Whether an order ends it, and not the job itself."""


class Ended(NamedTuple):
    """No process of the attempt lives and its log is complete."""

    outcome: Outcome
    fault: Optional[str] = None
    """Why it could not be started at all."""
    lost: bool = False
    """Whether that was the machine's fault, and not the job's: it may be tried again."""


Record = Union[Began, Ready, Hang, Recovered, Decided, Ended]
#: By what a line says that it is.
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
    """Add a record; ``durably`` returns only when it survives a power cut.  Raises OSError.

    It begins with a newline, which ends what an earlier try may have left torn.
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
    """A record as one line, without its newline."""
    return json.dumps({"is": _NAMES[type(record)], **codec.encode(record)}).encode()


def decode(line: bytes) -> Record:
    """Read one line back.  Raises ValueError, KeyError or TypeError for what is no record."""
    fields = json.loads(line)
    return codec.decode(_KINDS[fields["is"]], fields)
