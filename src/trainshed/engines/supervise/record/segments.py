"""Keeps the lines of an attempt: stamped at ingestion, in order, in segments.

A line is on its way to the file as soon as the loop that delivers it has caught up, so a reader
finds it within milliseconds of its writing; nothing waits for a timer.

The supervisor keeps lines that it cannot write now, and retries: a full disk or a folder
that is away for a while costs no line.  The caller stops adding lines meanwhile
(``is_blocked``), so that little memory is needed, and the programs wait in their writes.  They do
so before the disk is full: one job's words must not keep others from being recorded.
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

#: Longer texts become several lines: Cloud Logging takes 256 KiB an entry, escapes included.
TEXT_LENGTH_MAX: Final = 1 << 15
#: The same where a command reads the log, and how many segments may lie there that it has not read.
FOREGROUND_TEXT_LENGTH_MAX: Final = 1 << 20
FOREGROUND_UNREAD_MAX: Final = 4

_GATHERED_BYTES_MAX: Final = 1 << 18
#: How much is written between two looks at the room on the disk.
_UNLOOKED_BYTES_MAX: Final = 1 << 18
_NEWLINE: Final = ord("\n")
_TAIL_BYTES: Final = 1 << 20
_STAMP_NS_MAX: Final = 1 << 62
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


class SegmentWriter:
    """The log of one attempt; ``flush`` writes what was gathered."""

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
        """Nothing is made before the first line; every stamp will be above ``after_ns``.

        ``unread_max`` is for a reader that removes segments when it has read them: so many may
        wait for it, at least two.  The oldest of more than ``bytes_max`` are removed here, for
        which one segment that is still written does not count.
        """
        self._folder = os.fspath(folder)
        self._last_ns = after_ns
        self._segment_bytes_max = segment_bytes_max
        self.text_length_max = text_length_max
        self._unread_max = unread_max
        self._bytes_max = bytes_max
        self._whole: deque[tuple[int, int]] = deque()
        self._unlooked = 0
        self._clock = clock
        self._gathered = bytearray()
        self._number = 0
        self._descriptor = -1
        self._written = 0
        self._is_torn = False
        self.leaves_room = leaves_room
        """Whether nothing is written on a disk that is nearly full (``files.room``)."""
        self.broken: OSError | None = None
        """Why it cannot be written now, if so."""

    @property
    def is_blocked(self) -> bool:
        """Whether what was gathered waits for the file system; nothing more should be given."""
        return self.broken is not None

    def line(
        self, task_name: str, text: str, *, severity: str, stream: str, trial: str = ""
    ) -> None:
        """Take a line of a replica."""
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
        """Take lines that differ by their texts alone, none longer than ``text_length_max``."""
        first_ns = self._next_stamp()
        self._last_ns += len(texts) - 1
        self._gathered += encode_all(
            first_ns, task_name, texts, severity=severity, stream=stream, trial=trial
        )
        self._flush_much()

    def note(self, text: str, severity: str = "INFO") -> None:
        """Take a line of the engine's own."""
        stamp = self._next_stamp()
        self._gather(LogLine(stamp_ns=stamp, task_name=SERVICE_TASK, text=text, severity=severity))

    def flush(self) -> bool:
        """Write what was gathered; False: it cannot be written now, and is kept."""
        try:
            while self._gathered:
                self._have_segment()
                self._have_room()
                count = os.write(self._descriptor, self._gathered)
                self._written += count
                self._unlooked += count
                self._is_torn = self._gathered[count - 1] != _NEWLINE
                del self._gathered[:count]
        except OSError as error:
            self.broken = error
        else:
            self.broken = None
        return self.broken is None

    def forget_reader(self) -> None:
        """Stop waiting for the reader, which has ended."""
        self._unread_max = None

    def sync(self) -> bool:
        """Write the rest; True when all of it survives a power cut."""
        if not self.flush():
            return False
        try:
            if self._descriptor >= 0:
                os.fdatasync(self._descriptor)
                sync_folder(self._folder)
        except OSError as error:
            self.broken = error
        return self.broken is None

    def close(self) -> None:
        """Write what can be written, and close the file."""
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

    def _have_room(self) -> None:
        """Raises OSError where others need what is left of the disk."""
        if not self.leaves_room or (self._unlooked < _UNLOOKED_BYTES_MAX and not self.broken):
            return
        if room.missing_bytes(self._descriptor):
            free = room.free_bytes(self._descriptor) >> 20
            raise OSError(errno.ENOSPC, f"{free} MiB are free on the server's disk")
        self._unlooked = 0

    def _have_segment(self) -> None:
        """Open a segment with room that a reader will find."""
        if self._descriptor >= 0:
            is_there = os.fstat(self._descriptor).st_nlink > 0
            if is_there and (self._is_torn or self._written < self._segment_bytes_max):
                return
            self._end_segment()
            self._drop_rest_of_line()
        self._let_reader_follow()
        with suppress(FileExistsError):
            os.mkdir(self._folder, _PRIVATE_FOLDER)
        self._descriptor = self._new_segment()
        self._written = 0

    def _let_reader_follow(self) -> None:
        """Raises BlockingIOError for a reader that is too far behind."""
        if self._unread_max and self._number >= self._unread_max:
            oldest = segment_name(self._number + 1 - self._unread_max)
            if os.path.exists(f"{self._folder}/{oldest}"):
                raise BlockingIOError(errno.EAGAIN, "the log is not read")

    def _drop_rest_of_line(self) -> None:
        """Drop the line in progress: its beginning was in a file that was removed."""
        if self._is_torn:
            del self._gathered[: self._gathered.find(_NEWLINE) + 1]
            self._is_torn = False

    def _new_segment(self) -> int:
        """Take the next number without a file; existing files are left unchanged."""
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
        self._whole.append((self._number, self._written))
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        while self._bytes_max and sum(size for _, size in self._whole) > self._bytes_max:
            number, _ = self._whole.popleft()
            room.release(f"{self._folder}/{segment_name(number)}")


def last_stamp(job: str) -> int:
    """The last stamp in any attempt's log below a job's folder; 0 where there is none.

    Segments that cannot be read, or that hold no line of ours, do not count.
    """
    latest = 0
    for attempt in _names(job):
        log = f"{job}/{attempt}/{LOG_FOLDER}"
        for name in sorted(_names(log), reverse=True):
            if stamp := _last_stamp_of(f"{log}/{name}"):
                latest = max(latest, stamp)
                break
    return latest


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name[0].isdigit()]
    except OSError:
        return []


def _last_stamp_of(segment: str) -> int:
    for line in _last_lines(segment):
        with suppress(ValueError, TypeError):
            stamp = decode(line).stamp_ns
            if isinstance(stamp, int) and 0 < stamp < _STAMP_NS_MAX:
                return stamp
    return 0


def _last_lines(path: str) -> Iterator[bytes]:
    """The whole lines at the end of a file, the last first."""
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
