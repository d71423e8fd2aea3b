"""Reads an attempt's log and records as they are, to the last byte that is wrong."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trainshed.model.log_line import decode
from trainshed.workbench.doctor.snapshot import LogSeen

#: Damage is named at so many places of a file; the rest is counted.
_NAMED_MAX: Final = 3
#: How every record begins: what begins so and does not end was torn, and does not count.
_RECORD_HEAD: Final = b'{"is": "'


class LogLook:
    """Takes the segments of one attempt in their order."""

    def __init__(self) -> None:
        """Nothing was read."""
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._lines = 0
        self._is_torn = False
        self._wrong: list[str] = []

    def take(self, name: str, lines: Iterable[bytes]) -> None:
        """Read the lines of a segment, each with its newline."""
        if self._is_torn:
            self._wrong.append("a line is torn at the end of a segment that is not the last")
            self._is_torn = False
        wrong = []
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                self._is_torn = True
            elif text := self._wrong_line(line):
                wrong.append(f"line {number} of segment {name} {text}")
        self._wrong += _some(wrong)

    def seen(self) -> LogSeen:
        """What was read."""
        return LogSeen(
            first_ns=self._first_ns,
            last_ns=self._last_ns,
            lines=self._lines,
            is_torn=self._is_torn,
            wrong=tuple(self._wrong),
        )

    def _wrong_line(self, line: bytes) -> str:
        self._lines += 1
        try:
            stamp = decode(line).stamp_ns
        except (ValueError, TypeError):
            return "cannot be read"
        if not isinstance(stamp, int):
            return "has no stamp"
        before, self._last_ns = self._last_ns, stamp
        if self._first_ns is None:
            self._first_ns = stamp
        return "" if before is None or stamp > before else "is not stamped after the one before it"


def look_at_log(segments: Iterable[Path]) -> LogSeen:
    """Read the segments of an attempt, those that were pruned meanwhile left out."""
    look = LogLook()
    for path in segments:
        with suppress(FileNotFoundError), path.open("rb") as file:
            look.take(path.name, file)
    return look.seen()


def look_at_records(data: bytes) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """The records of an attempt, and what is wrong with them."""
    found, wrong = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            found.append({**record, "is": str(record["is"])})
        except (ValueError, TypeError, KeyError):
            if not line.startswith(_RECORD_HEAD) and not _RECORD_HEAD.startswith(line):
                wrong.append(f"line {number} cannot be read")
    return tuple(found), tuple(_some(wrong))


def _some(found: list[str]) -> Iterator[str]:
    yield from found[:_NAMED_MAX]
    if len(found) > _NAMED_MAX:
        yield f"and {len(found) - _NAMED_MAX} more like it"
