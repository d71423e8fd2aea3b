"""Writes the log of an attempt: lines with the time of their arrival, in order, in segments.

The supervisor writes the gathered lines in each turn of its loop, without a timer, so a reader
finds a line milliseconds after the program wrote it.

Lines that cannot be written now stay in memory, and the supervisor tries again: a full disk, or a
folder that is unavailable for a while, loses no line.  The caller adds no lines meanwhile
(``is_blocked``), so little memory is needed, and the programs block in their writes.  They block
before the disk is full: the output of one job must leave space for the records of other jobs.
"""

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.record.folder import sync_folder
from trainshed.files import room
from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model.log_line import (
    LOG_FOLDER,
    SERVICE_TASK,
    LogLine,
    decode,
    encode,
    encode_all,
    segment_name,
)

SEGMENT_BYTES_MAX: Final = 4 << 20

#: Longer texts become several lines: an entry of Cloud Logging has at most 256 KiB with escapes.
TEXT_LENGTH_MAX: Final = 1 << 15
#: If a foreground command reads the log: the limits of a text, and of segments not read yet.
FOREGROUND_TEXT_LENGTH_MAX: Final = 1 << 20
FOREGROUND_UNREAD_MAX: Final = 4

_GATHERED_BYTES_MAX: Final = 1 << 18
#: How many bytes to write between two checks of the free disk space.
_UNCHECKED_BYTES_MAX: Final = 1 << 18
_NEWLINE: Final = ord("\n")
_TAIL_BYTES: Final = 1 << 20
_STAMP_NS_MAX: Final = 1 << 62
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


class SegmentWriter:
    """The log of one attempt; ``flush`` writes the gathered lines."""

    def __init__(  # noqa: PLR0913 - bounds, each with its default
        self,
        folder: str | os.PathLike[str],
        *,
        after_ns: int = 0,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        text_length_max: int = TEXT_LENGTH_MAX,
        unread_max: int | None = None,
        bytes_max: int | None = None,
        leaves_room: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Make no file before the first line; every stamp will be above ``after_ns``.

        ``unread_max`` is for a reader that removes the segments that it has read: the log blocks
        while that number of segments (at least two) is unread.  If the segments have more than
        ``bytes_max``, the oldest are removed; the one in progress does not count.
        """
        self._folder = os.fspath(folder)
        self._last_ns = after_ns
        self._segment_bytes_max = segment_bytes_max
        self.text_length_max = text_length_max
        self._unread_max = unread_max
        self._bytes_max = bytes_max
        self._complete: deque[tuple[int, int]] = deque()
        self._unchecked = 0
        self._clock = clock
        self._gathered = bytearray()
        self._number = 0
        self._descriptor = -1
        self._written = 0
        self._is_torn = False
        self.leaves_room = leaves_room
        """Whether to write nothing when the disk is nearly full (``files.room``)."""
        self.write_error: OSError | None = None
        """The error of the last write; None if the last write succeeded."""

    @property
    def is_blocked(self) -> bool:
        """Whether the gathered lines cannot be written; the caller must not add more."""
        return self.write_error is not None

    def line(
        self, task_name: str, text: str, *, severity: str, stream: str, trial: str = ""
    ) -> None:
        """Add a line of a replica."""
        for start in range(0, max(1, len(text)), self.text_length_max):
            self._gather(
                LogLine(
                    stamp_ns=self._next_stamp(),
                    task_name=task_name,
                    text=text[start : start + self.text_length_max],
                    severity=severity,
                    stream=stream,
                    trial=trial,
                )
            )

    def lines(
        self, task_name: str, texts: Sequence[str], *, severity: str, stream: str, trial: str = ""
    ) -> None:
        """Add lines that differ only in their texts, none longer than ``text_length_max``."""
        first_ns = self._next_stamp()
        self._last_ns += len(texts) - 1
        self._gathered += encode_all(
            first_ns, task_name, texts, severity=severity, stream=stream, trial=trial
        )
        self._flush_much()

    def note(self, text: str, severity: str = "INFO") -> None:
        """Add a line of the engine."""
        stamp = self._next_stamp()
        self._gather(LogLine(stamp_ns=stamp, task_name=SERVICE_TASK, text=text, severity=severity))

    def flush(self) -> bool:
        """Write the gathered lines; False: they cannot be written now, and stay in memory."""
        try:
            while self._gathered:
                self._ensure_segment()
                self._check_room()
                count = os.write(self._descriptor, self._gathered)
                self._written += count
                self._unchecked += count
                self._is_torn = self._gathered[count - 1] != _NEWLINE
                del self._gathered[:count]
        except OSError as error:
            self.write_error = error
        else:
            self.write_error = None
        return self.write_error is None

    def forget_reader(self) -> None:
        """Do not wait for the reader any longer, because it has ended."""
        self._unread_max = None

    def sync(self) -> bool:
        """Write the gathered lines; return True when the whole log survives a power cut."""
        if not self.flush():
            return False
        try:
            if self._descriptor >= 0:
                os.fdatasync(self._descriptor)
                sync_folder(self._folder)
        except OSError as error:
            self.write_error = error
        return self.write_error is None

    def close(self) -> None:
        """Write the gathered lines if possible, and close the file."""
        self.flush()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _next_stamp(self) -> int:
        self._last_ns = max(self._clock(), self._last_ns + 1)
        return self._last_ns

    def _gather(self, line: LogLine) -> None:
        self._gathered += encode(line)
        self._flush_much()

    def _flush_much(self) -> None:
        if len(self._gathered) >= _GATHERED_BYTES_MAX and not self.is_blocked:
            self.flush()

    def _check_room(self) -> None:
        """Raise OSError if the free disk space is reserved for records and other jobs."""
        if not self.leaves_room or (
            self._unchecked < _UNCHECKED_BYTES_MAX and not self.write_error
        ):
            return
        if room.missing_bytes(self._descriptor):
            free = room.free_bytes(self._descriptor) >> 20
            raise OSError(errno.ENOSPC, f"{free} MiB are free on the server's disk")
        self._unchecked = 0

    def _ensure_segment(self) -> None:
        """Open a new segment if there is none, or if the present one is full or was removed."""
        if self._descriptor >= 0:
            exists = os.fstat(self._descriptor).st_nlink > 0
            if exists and (self._is_torn or self._written < self._segment_bytes_max):
                return
            self._end_segment()
            self._drop_rest_of_line()
        self._check_reader()
        with suppress(FileExistsError):
            os.mkdir(self._folder, _PRIVATE_FOLDER)
        self._descriptor = self._new_segment()
        self._written = 0

    def _check_reader(self) -> None:
        """Raise BlockingIOError if the reader has not yet read enough segments."""
        if self._unread_max and self._number >= self._unread_max:
            oldest = segment_name(self._number + 1 - self._unread_max)
            if os.path.exists(f"{self._folder}/{oldest}"):
                raise BlockingIOError(errno.EAGAIN, "the log is not read")

    def _drop_rest_of_line(self) -> None:
        """Drop the second part of a line if the file with its first part was removed."""
        if self._is_torn:
            del self._gathered[: self._gathered.find(_NEWLINE) + 1]
            self._is_torn = False

    def _new_segment(self) -> int:
        """Create the file with the next free number; leave existing files unchanged."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        while True:
            path = f"{self._folder}/{segment_name(self._number + 1)}"
            try:
                descriptor = os.open(path, flags, _PRIVATE_FILE)
            except FileExistsError:
                self._number += 1
                continue
            self._number += 1
            return descriptor

    def _end_segment(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self._complete.append((self._number, self._written))
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        while self._bytes_max and sum(size for _, size in self._complete) > self._bytes_max:
            number, _ = self._complete.popleft()
            room.release(f"{self._folder}/{segment_name(number)}")


def last_stamp(job: str) -> int:
    """Return the last stamp in the logs of all attempts below a job's folder; 0 if there is none.

    Segments that cannot be read or have no valid line do not count.
    """
    latest = 0
    for attempt in _list_numbered(job):
        log = f"{job}/{attempt}/{LOG_FOLDER}"
        for name in sorted(_list_numbered(log), reverse=True):
            if stamp := _read_last_stamp(f"{log}/{name}"):
                latest = max(latest, stamp)
                break
    return latest


def _list_numbered(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name[0].isdigit()]
    except OSError:
        return []


def _read_last_stamp(segment: str) -> int:
    for line in _read_last_lines(segment):
        with suppress(ValueError, TypeError):
            stamp = decode(line).stamp_ns
            if isinstance(stamp, int) and 0 < stamp < _STAMP_NS_MAX:
                return stamp
    return 0


def _read_last_lines(path: str) -> Iterator[bytes]:
    """Yield the complete lines at the end of a file, the last one first."""
    place = PathBeneath.of_file(path)
    try:
        with Beneath(place.root) as folder, folder.read(place.name) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            data = file.read(_TAIL_BYTES)
    except OSError:
        return
    end = data.rfind(b"\n")
    while end > 0:
        start = data.rfind(b"\n", 0, end)
        yield data[start + 1 : end]
        end = start
