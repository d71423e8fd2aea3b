"""Selects lines of a log by their first fields, without decoding them.

The selection works on pieces of whole lines, as ``log_line.encode`` writes them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trainshed.model.log_line import SEVERITIES

_NEWLINE: Final = b"\n"
_ANY_TASK: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
#: Up to so many lines of a piece are compared one by one, which is faster than an expression.
_CANDIDATES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class LineFilter:
    """The lines of one task or all, with a severity or a graver one."""

    task: str | None = None
    severity: str = SEVERITIES[0]

    @property
    def takes_all(self) -> bool:
        return self.task is None and self.severity == SEVERITIES[0]

    @property
    def severities(self) -> tuple[str, ...]:
        """Return the severities of the selected lines."""
        return SEVERITIES[SEVERITIES.index(self.severity) :]

    def takes(self, task: str, severity: str) -> bool:
        """Return whether the filter selects a line with these fields."""
        return self.task in (None, task) and (
            self.severity == SEVERITIES[0] or severity in self.severities
        )

    def count(self, piece: bytes) -> int:
        """Return the number of selected lines in a piece."""
        if self.takes_all:
            return piece.count(_NEWLINE)
        return sum(1 for _ in self.starts(piece))

    def starts(self, piece: bytes) -> Iterator[int]:
        """Yield where the selected lines of a piece begin."""
        if self.takes_all:
            return _line_starts(piece)
        needles = _needles(self)
        candidates = sum(piece.count(needle) for needle in needles)
        if candidates > _CANDIDATES_MAX:
            return (match.start() for match in _head(self).finditer(_NEWLINE + piece))
        return _starts_of_candidates(self, piece) if candidates else iter(())


def _line_starts(piece: bytes) -> Iterator[int]:
    start = 0
    while end := piece.find(_NEWLINE, start) + 1:
        yield start
        start = end


def _starts_of_candidates(line_filter: LineFilter, piece: bytes) -> Iterator[int]:
    """Yield the starts of the selected lines; few lines have the bytes of the filter."""
    offsets = {
        piece.rfind(_NEWLINE, 0, match.start()) + 1
        for needle in _needles(line_filter)
        for match in re.finditer(re.escape(needle), piece)
    }
    head = _head(line_filter)
    text = _NEWLINE + piece
    return (offset for offset in sorted(offsets) if head.match(text, offset))


@lru_cache(maxsize=256)
def _needles(line_filter: LineFilter) -> tuple[bytes, ...]:
    """Return texts of which every selected line has one."""
    if line_filter.task is not None:
        return (b" " + _encode(line_filter.task) + b", ",)
    return tuple(b'", "%b", "' % severity.encode() for severity in line_filter.severities)


@lru_cache(maxsize=256)
def _head(line_filter: LineFilter) -> "re.Pattern[bytes]":
    """Return the expression of a newline and the first fields of a selected line."""
    task = _ANY_TASK if line_filter.task is None else re.escape(_encode(line_filter.task))
    if line_filter.severity == SEVERITIES[0]:
        return re.compile(rb"\n\[\d{1,20}, " + task + rb", ")
    severities = "|".join(line_filter.severities).encode()
    return re.compile(rb"\n\[\d{1,20}, " + task + rb', "(?:' + severities + rb')", ')


def _encode(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")
