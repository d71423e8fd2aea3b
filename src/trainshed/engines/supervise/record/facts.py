"""Writes the records of an attempt in order, and tries again until all are written.

On a full disk the supervisor waits and does not end: without a record of the end, the server would
start the attempt again.
"""

from collections import deque
from typing import Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record import records
from trainshed.engines.supervise.record.records import Record
from trainshed.files import room

_RETRY_S: Final = 1.0


class Facts:
    """The records file of one attempt, as its supervisor writes it."""

    def __init__(self, loop: Loop, path: str, spare: str) -> None:
        """``spare`` is a file to remove if the disk is full, for free space (``files.room``)."""
        self._loop = loop
        self._path = path
        self._spare = spare
        self._waiting: deque[tuple[Record, bool]] = deque()
        self._is_retrying = False

    @property
    def are_written(self) -> bool:
        """Whether all records are in the file."""
        return not self._waiting

    def write(self, record: Record, *, durably: bool = False) -> None:
        """Write a record now, or as soon as the disk has free space."""
        self._waiting.append((record, durably))
        self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                record, durably = self._waiting[0]
                records.append(self._path, record, durably=durably)
                self._waiting.popleft()
        except OSError:
            room.release(self._spare)
            if not self._is_retrying:
                self._is_retrying = True
                self._loop.after(_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        self._write_waiting()
