"""What a supervisor tells of its attempt, one JSON line each, only ever appended.

Whoever reads keeps an offset and reads on from there.  Lines that were torn by a full disk or a
power cut do not count.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trainshed.engines.exit_status import status_of

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


class Hung(NamedTuple):
    """A replica shows no sign of progress."""

    task_name: str
    seconds: float
    """Since its last sign."""
    stacks: str = ""


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


class Exit(NamedTuple):
    """How one replica ended; the fields are those of ``engines.base.ReplicaExit``."""

    role: str
    index: int  # type: ignore[assignment] # tuples have a method of that name
    task_name: str
    exit_code: int | None
    signal: int | None
    seconds: float
    stopped_by_us: bool
    killed: bool = False
    notice_s: float | None = None
    oom: bool = False
    peak_memory_bytes: int | None = None

    @property
    def status(self) -> int:
        """The exit as one number, as a shell counts."""
        return status_of(self.exit_code, self.signal)


class End(NamedTuple):
    """How the attempt ended; the fields are those of ``engines.base.Outcome``."""

    exit_code: int
    message: str
    replicas: tuple[Exit, ...] = ()
    last_words: str = ""
    interrupted: bool = False


class Ended(NamedTuple):
    """No process of the attempt lives and its log is complete."""

    outcome: End
    fault: str | None = None
    """Why it could not be started at all."""
    lost: bool = False
    """Whether that was the machine's fault, and not the job's: it may be tried again."""


Record = Began | Ready | Hung | Recovered | Decided | Ended
_KINDS: Final[Mapping[str, Any]] = {
    kind.__name__: kind for kind in (Began, Ready, Hung, Recovered, Decided, Ended)
}


def append(path: str, record: Record, *, durably: bool) -> None:
    """Add a record; ``durably`` returns only when it survives a power cut.  Raises OSError.

    It begins with a newline, which ends what an earlier try may have left torn.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
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
    fields = record._asdict()
    if isinstance(record, Ended):
        replicas = [each._asdict() for each in record.outcome.replicas]
        fields["outcome"] = {**record.outcome._asdict(), "replicas": replicas}
    return json.dumps({"is": type(record).__name__, **fields}).encode()


def decode(line: bytes) -> Record:
    """Read one line back.  Raises ValueError, KeyError or TypeError for what is no record."""
    fields = json.loads(line)
    kind = _KINDS[fields.pop("is")]
    if kind is Ended:
        outcome = fields["outcome"]
        replicas = tuple(Exit(**each) for each in outcome["replicas"])
        fields["outcome"] = End(**{**outcome, "replicas": replicas})
    if kind is Ready:
        fields["task_names"] = tuple(fields["task_names"])
    record: Record = kind(**fields)
    return record
