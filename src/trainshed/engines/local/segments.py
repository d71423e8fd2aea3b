"""Writes the lines of an attempt where they are kept: stamped at ingestion, in order, in segments.

A line is on its way to the file as soon as the loop that delivers it has caught up, so a reader
finds it within milliseconds of its writing; nothing waits for a timer.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.engines.base import Stream
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.log_line import (
    LOG_FOLDER,
    SEGMENT_PATTERN,
    SERVICE_TASK,
    LogLine,
    encode,
    segment_name,
    stamp_of,
)
from trainshed.model.severity import SeverityReader

SEGMENT_BYTES_MAX: Final = 4 << 20

#: Longer texts become several lines: Cloud Logging takes 256 KiB an entry, escapes included.
TEXT_LENGTH_MAX: Final = 1 << 15

_GATHERED_BYTES_MAX: Final = 1 << 18
_PRIVATE_FILE = 0o600
_TRIAL_VARIABLE: Final = "CLOUD_ML_TRIAL_ID"


class SegmentSink:
    """The log of one attempt, as an ``OutputSink``; ``flush`` writes what was gathered."""

    def __init__(
        self,
        folder: Path,
        *,
        after_ns: int = 0,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin the first segment of a folder; every stamp will be above ``after_ns``."""
        self._folder = folder
        self._last_ns = after_ns
        self._segment_bytes_max = segment_bytes_max
        self._clock = clock
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._severities: dict[tuple[str, Stream], SeverityReader] = {}
        self._number = 0
        self._descriptor = -1
        self._written = 0
        folder.mkdir(exist_ok=True)
        self._begin_segment()

    def line(self, replica: ReplicaPlan, text: str, stream: Stream) -> None:
        """Take a line of a replica."""
        key = (replica.task_name, stream)
        reader = self._severities.get(key)
        if reader is None:
            reader = self._severities[key] = SeverityReader()
        severity = reader.of(text)
        trial = replica.env.get(_TRIAL_VARIABLE, "")
        for start in range(0, max(1, len(text)), TEXT_LENGTH_MAX):
            self._gather(
                LogLine(
                    stamp_ns=self._next_stamp(),
                    task_name=replica.task_name,
                    text=text[start : start + TEXT_LENGTH_MAX],
                    severity=severity,
                    stream=stream,
                    trial=trial,
                )
            )

    def note(self, text: str) -> None:
        """Take a line of the engine's own, and write it at once."""
        self._gather(LogLine(stamp_ns=self._next_stamp(), task_name=SERVICE_TASK, text=text))
        self.flush()

    def flush(self) -> None:
        """Write what was gathered.  Raises OSError."""
        if not self._gathered:
            return
        data = memoryview(b"".join(self._gathered))
        self._gathered.clear()
        self._gathered_bytes = 0
        if self._written >= self._segment_bytes_max:
            self._begin_segment()
        while data:
            count = os.write(self._descriptor, data)
            self._written += count
            data = data[count:]

    def close(self) -> None:
        """Write the rest, and return when all of it survives a power cut.  Raises OSError."""
        try:
            self.flush()
        finally:
            self._end_segment()

    def _next_stamp(self) -> int:
        self._last_ns = max(self._clock(), self._last_ns + 1)
        return self._last_ns

    def _gather(self, line: LogLine) -> None:
        data = encode(line)
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= _GATHERED_BYTES_MAX:
            self.flush()

    def _begin_segment(self) -> None:
        self._end_segment()
        self._number += 1
        path = self._folder / segment_name(self._number)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._descriptor = os.open(path, flags, _PRIVATE_FILE)
        self._written = 0

    def _end_segment(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)


def last_stamp(attempts: Path) -> int:
    """The last stamp in any attempt's log below a job's folder; 0 where there is none."""
    found = 0
    for log in attempts.glob(f"*/{LOG_FOLDER}"):
        for segment in sorted(log.glob(SEGMENT_PATTERN), reverse=True):
            if stamp := _last_stamp_of(segment):
                found = max(found, stamp)
                break
    return found


def _last_stamp_of(segment: Path) -> int:
    with suppress(OSError, ValueError):
        whole, newline, _ = segment.read_bytes().rpartition(b"\n")
        if newline:
            return stamp_of(whole[whole.rfind(b"\n") + 1 :])
    return 0
