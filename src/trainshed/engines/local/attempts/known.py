"""What is known of an attempt from its records, and what it means to the controller."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.engines.local.supervise.records import (
    Began,
    Decided,
    Ended,
    Ready,
    Record,
    Recovered,
    decode,
)
from trainshed.model.attempt import Hang, Outcome


@dataclass(slots=True)
class AttemptRecords:
    """All that has been read of one attempt's records."""

    began: Began | None = None
    ready: Ready | None = None
    decided: Decided | None = None
    ended: Ended | None = None
    hung: dict[str, Hang] = field(default_factory=dict)
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
            case Hang():
                self.hung[record.task_name] = record
            case Recovered():
                self.hung.pop(record.task_name, None)
            case _:
                setattr(self, type(record).__name__.lower(), record)


def decided_outcome(decided: Decided) -> Outcome:
    """The outcome of an attempt whose supervisor was killed after it had decided."""
    return Outcome(**decided._asdict())
