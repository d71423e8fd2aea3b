"""One line of a job's log, and its bytes in the log file.

A log file holds one JSON array a line, its fields in the order of ``encode``.  Stamps are
nanoseconds since 1970, given at ingestion, and strictly ascend within a job (docs/sources/gcloud.md
7.3).  A last line without a newline is incomplete and is ignored.

An attempt's log is a folder of such files, its segments, numbered from 1 in the order of their
lines.
"""

import json
from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

#: The severities of Cloud Logging that Trainshed uses.
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

#: The task name of the service's own lines (docs/sources/gcloud.md 7.5).
SERVICE_TASK = "service"

#: The folder of an attempt's segments, and the pattern of their names.
LOG_FOLDER: Final = "log"
SEGMENT_PATTERN: Final = "[0-9]*.jsonl"

_as_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_from_json = json.JSONDecoder().decode
_as_text = json.encoder.encode_basestring


def segment_name(number: int) -> str:
    """Return the file name of a segment; names sort in the order of numbers."""
    return f"{number:08d}.jsonl"


class LogLine(NamedTuple):
    """One line of a log, with its time, its task and its severity."""

    stamp_ns: int
    task_name: str
    text: str
    severity: str = "INFO"
    stream: str = "stdout"
    trial: str = ""


def encode(line: LogLine) -> bytes:
    """Return the line's bytes in the file, with the newline."""
    fields = [line.stamp_ns, line.task_name, line.severity, line.stream, line.text, line.trial]
    return _as_json(fields).encode("utf-8", "backslashreplace") + b"\n"


def encode_all(  # noqa: PLR0913 - the fields of a line
    first_ns: int, task_name: str, texts: Iterable[str], *, severity: str, stream: str, trial: str
) -> bytes:
    """Encode lines that differ only in their texts; each stamp is 1 ns after the one before."""
    head = f", {_as_text(task_name)}, {_as_text(severity)}, {_as_text(stream)}, "
    tail = f", {_as_text(trial)}]\n"
    lines = [
        f"[{stamp_ns}{head}{_as_text(text)}{tail}" for stamp_ns, text in zip(count(first_ns), texts)
    ]
    return "".join(lines).encode("utf-8", "backslashreplace")


def decode(data: bytes) -> LogLine:
    """Return the line of some bytes.  Raises ValueError for bytes that ``encode`` did not write."""
    stamp_ns, task_name, severity, stream, text, trial = _from_json(data.decode())
    return LogLine(
        stamp_ns=stamp_ns,
        task_name=task_name,
        severity=severity,
        stream=stream,
        text=text,
        trial=trial,
    )
