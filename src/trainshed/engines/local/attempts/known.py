"""What is known of an attempt from its records, and what it means to the controller."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainshed.engines.local.supervise.records import (
    Began,
    Decided,
    End,
    Ended,
    Hung,
    Ready,
    Record,
    Recovered,
    decode,
)
from trainshed.model.attempt import Hang, Outcome, ReplicaExit
from trainshed.model.roles import Role


@dataclass(slots=True)
class Known:
    """All that has been read of one attempt's records."""

    began: Began | None = None
    ready: Ready | None = None
    decided: Decided | None = None
    ended: Ended | None = None
    hung: dict[str, Hung] = field(default_factory=dict)
    """Replicas that hang now, by task name."""
    offset: int = 0

    def read(self, path: str) -> None:
        """Read on from where the last reading ended.  Raises OSError."""
        try:
            if os.stat(path).st_size <= self.offset:  # noqa: PTH116 - thousands of times a second
                return
            with Path(path).open("rb", buffering=0) as file:
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
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        self.learn(record)

    def learn(self, record: Record) -> None:
        """Take one more record."""
        match record:
            case Hung():
                self.hung[record.task_name] = record
            case Recovered():
                self.hung.pop(record.task_name, None)
            case _:
                setattr(self, type(record).__name__.lower(), record)


def outcome_of(end: End) -> Outcome:
    """The end of an attempt in the words that all engines share."""
    exits = (ReplicaExit(**_exit_fields(each._asdict())) for each in end.replicas)
    return Outcome(**{**end._asdict(), "replicas": tuple(exits)})


def decided_outcome(decided: Decided) -> Outcome:
    """The same for one whose supervisor was killed after it had decided."""
    return Outcome(replicas=(), **decided._asdict())


def hangs_of(known: Known) -> tuple[Hang, ...]:
    """The replicas that hang now."""
    return tuple(Hang(**hung._asdict()) for hung in known.hung.values())


def _exit_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "role": Role(fields["role"])}
