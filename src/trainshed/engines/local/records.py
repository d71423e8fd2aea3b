"""What a runner tells of its attempt, one JSON line each, only ever appended.

Whoever reads keeps an offset and reads on from there.  Lines that were torn by a full disk or a
power cut do not count.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainshed.engines.base import Outcome, ReplicaExit
from trainshed.model.roles import Role

_PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A runner has taken the attempt; there will be no second one."""

    pid: int
    start_ticks: int
    """When the process was started (proc(5), field 22): tells it from a later one of its pid."""
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Every replica has been started."""

    task_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How it will end is certain; replicas are being stopped."""

    exit_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """No process of the attempt lives and its log is complete."""

    outcome: Outcome
    fault: str | None = None


Record = Began | Ready | Decided | Ended


@dataclass(slots=True)
class Known:
    """All that has been read of one attempt's records."""

    began: Began | None = None
    ready: Ready | None = None
    decided: Decided | None = None
    ended: Ended | None = None
    offset: int = 0

    def read(self, path: Path) -> None:
        """Read on from where the last reading ended.  Raises OSError."""
        try:
            if path.stat().st_size <= self.offset:
                return
            with path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        self.offset += len(whole) + len(newline)
        for line in whole.split(b"\n"):
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = decode(line)
        except (ValueError, KeyError, TypeError):
            return
        setattr(self, type(record).__name__.lower(), record)


def append(path: Path, record: Record, *, durably: bool) -> None:
    """Add a record; ``durably`` returns only when it survives a power cut.  Raises OSError.

    It begins with a newline, which ends what an earlier try may have left torn.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE_FILE)
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
    fields: dict[str, Any] = {"is": type(record).__name__, **asdict(record)}
    if isinstance(record, Ended):
        for each in fields["outcome"]["replicas"]:
            each["role"] = each["role"].value
    return json.dumps(fields).encode()


def decode(line: bytes) -> Record:
    """Read one line back.  Raises ValueError, KeyError or TypeError for what is no record."""
    fields = json.loads(line)
    kind = _KINDS[fields.pop("is")]
    if kind is Ended:
        fields["outcome"] = _outcome(fields["outcome"])
    if kind is Ready:
        fields["task_names"] = tuple(fields["task_names"])
    record: Record = kind(**fields)
    return record


_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Began, Ready, Decided, Ended)}


def _outcome(fields: dict[str, Any]) -> Outcome:
    exits = (ReplicaExit(**{**each, "role": Role(each["role"])}) for each in fields["replicas"])
    return Outcome(**{**fields, "replicas": tuple(exits)})
