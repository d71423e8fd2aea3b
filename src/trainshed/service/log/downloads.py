"""Renders the whole log of a job as a text or as JSON lines, to be saved."""

import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainshed.model.log_line import LogLine
from trainshed.service.log.numbered import (
    LogRow,
    LogSelection,
    NumberedLogs,
    OpenLog,
    count_in_turns,
    merge_rows,
)
from trainshed.store.records.jobs import JobRecord
from trainshed.wire.native_v1 import line_json
from trainshed.wire.times import timestamp

#: The fastest level: a log is compressed while it is sent.
_LEVEL: Final = 1
_GZIP_BITS: Final = 31
#: So many bytes are compressed at once.
_BLOCK_BYTES: Final = 1 << 16


class LogFormat(StrEnum):
    """The formats of a download."""

    TEXT = "text"
    JSON_LINES = "jsonl"


@dataclass(frozen=True, slots=True)
class LogDownloads:
    """Renders logs.  Thread-safe."""

    logs: NumberedLogs

    def lines(self, record: JobRecord, selection: LogSelection) -> Iterator[LogLine | None]:
        """Return the selected lines of a log, with the service's sentences between them.

        None: time to pause.  Raises Refusal at once for a trial that does not exist.
        """
        source = self.logs.source(record, selection.trial)
        if source is None:
            return self._study_lines(record, selection)
        return _read_lines(self.logs.open(source, selection))

    def _study_lines(self, record: JobRecord, selection: LogSelection) -> Iterator[LogLine | None]:
        cursor = self.logs.study_cursor(record, selection.task)
        takes = selection.line_filter.takes
        while not cursor.has_all:
            lines = cursor.read()
            yield from (line for line in lines if takes(line.task_name, line.severity))
            yield None


def _read_lines(log: OpenLog) -> Iterator[LogLine | None]:
    """Count the lines first, so that segments without a selected line are not read again."""
    yield from count_in_turns(log.numbered)
    rows = (LogRow(line.number, log.source.marked(line.line)) for line in log.numbered.read(0))
    yield from (row.line for row in merge_rows(rows, log.sentences))


def render_lines(
    lines: Iterable[LogLine | None], log_format: LogFormat, *, has_times: bool
) -> Generator[bytes, None, None]:
    """Yield each line as bytes, None as no bytes.

    ``has_times`` adds the time, task and severity to the lines of a text.
    """
    for line in lines:
        if line is None:
            yield b""
            continue
        if log_format is LogFormat.JSON_LINES:
            text = json.dumps(line_json(line), ensure_ascii=False)
        elif has_times:
            task = f"{line.trial}/{line.task_name}" if line.trial else line.task_name
            text = f"{timestamp(line.stamp_ns)} {task} {line.severity} {line.text}"
        else:
            text = line.text
        yield f"{text}\n".encode("utf-8", "backslashreplace")


def compress(pieces: Iterable[bytes]) -> Generator[bytes, None, None]:
    """Yield the pieces as gzip; empty ones while there is nothing to send yet."""
    compressor = zlib.compressobj(_LEVEL, wbits=_GZIP_BITS)
    block = bytearray()
    for piece in pieces:
        block += piece
        is_full = len(block) > _BLOCK_BYTES
        yield compressor.compress(bytes(block)) if is_full else b""
        if is_full:
            block.clear()
    yield compressor.compress(bytes(block)) + compressor.flush()


def file_name(record: JobRecord, selection: LogSelection, log_format: LogFormat) -> str:
    """Return the name of the file: of the job, and of what is selected."""
    number = f"attempt-{selection.attempt}" if selection.attempt else ""
    trial = f"trial-{selection.trial}" if selection.trial else ""
    parts = (record.job.job_id or str(record.uid), trial, selection.task or "", number)
    stem = "-".join(part for part in parts if part)
    suffix = "jsonl" if log_format is LogFormat.JSON_LINES else "log"
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', stem)[:200]}.{suffix}"
