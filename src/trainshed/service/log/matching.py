"""Finds the lines of a log with a literal text or a match of an expression.

Most lines have no match, so pieces of files are searched before lines are decoded: a literal text
in the bytes, an expression in the joined texts of many lines.  Both may find lines without a match,
never miss one; then each line is compared alone.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, Final, Protocol

from trainshed.model.log_line import LogLine, encode
from trainshed.model.refusals import Code, Refusal
from trainshed.storage.log_segments import decode_line
from trainshed.wire.logging_v2.regular_expressions import (
    BadExpression,
    MissingRe2,
    compile_re2,
    encode_text,
)

#: The most matches of one line that are returned.
COLUMNS_MAX: Final = 100
#: An expression searches so many characters of a line; the supervisor's lines are not longer.
EXPRESSION_TEXT_MAX: Final = 1 << 15
#: Bytes of texts that an expression searches at once: it may take 10 us a byte.
_BATCH_BYTES: Final = (1 << 13, 1 << 18)
#: Seconds: a faster batch is followed by a larger one, a slower one by a smaller one.
_BATCH_S: Final = (0.01, 0.05)
#: If more than one of so many lines may match, decoding all lines at once is faster.
_RARE: Final = 8
_NEWLINE: Final = b"\n"
#: What means another thing in joined texts than in a line alone.
_NOT_JOINED: Final = re.compile(r"\\[AzZ]|\(\?[a-zA-Z]*-")

#: The first column of a match and the one after its last, in characters.
Columns = list[tuple[int, int]]


class Matcher(Protocol):
    """A text or an expression to search for."""

    @property
    def clauses(self) -> tuple[tuple[bytes, ...], ...]:
        """The bytes that matching lines have, as ``Span.holds`` takes them; empty: unknown."""
        ...

    def candidates(self, piece: bytes) -> Iterator[tuple[int, bytes] | None]:
        """Yield the lines of a piece that may match, with their offsets; None: time to pause."""
        ...

    def columns(self, text: str) -> Columns:
        """Return the matches in the text of a line; empty if it does not match."""
        ...


class LiteralMatcher:
    """Searches for a literal text; without case, letters from A to Z equal their small ones."""

    def __init__(self, text: str, *, ignores_case: bool) -> None:
        """``text`` must not be empty."""
        self._ignores_case = ignores_case
        flags = re.ASCII | (re.IGNORECASE if ignores_case else 0)
        self._pattern = re.compile(re.escape(text), flags)
        needle = _bytes_in_line(text)
        self._needle = needle.lower() if ignores_case else needle

    @property
    def clauses(self) -> tuple[tuple[bytes, ...], ...]:
        """Return the bytes of the text in lower case."""
        return ((self._needle.lower(),),)

    def candidates(self, piece: bytes) -> Iterator[tuple[int, bytes] | None]:
        """Yield the lines with the bytes of the text, also in fields other than their texts."""
        haystack, end = piece.lower() if self._ignores_case else piece, 0
        if haystack.count(self._needle) > piece.count(_NEWLINE) // _RARE:
            yield from self._candidates_by_text(piece)
            return
        while (at := haystack.find(self._needle, end)) >= 0:
            start = piece.rfind(_NEWLINE, 0, at) + 1
            end = piece.find(_NEWLINE, at) + 1
            yield start, piece[start:end]

    def _candidates_by_text(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Decode all lines at once: most have the bytes, be it in the name of their task."""
        start, search = 0, self._pattern.search
        for text in texts_of(piece):
            end = piece.find(_NEWLINE, start) + 1
            if search(text):
                yield start, piece[start:end]
            start = end

    def columns(self, text: str) -> Columns:
        """Return the places of the text in a line."""
        return [match.span() for match in islice(self._pattern.finditer(text), COLUMNS_MAX)]


class ExpressionMatcher:
    """Searches for an expression of RE2, in the first 32,768 characters of each line."""

    def __init__(self, pattern: str, *, ignores_case: bool) -> None:
        """Raise Refusal for a text that is no expression, and on a server without RE2."""
        try:
            self._alone = compile_re2(pattern, ignores_case=ignores_case)
            joined = compile_re2(f"(?m){pattern}", ignores_case=ignores_case)
        except BadExpression as error:
            message = f"q must be a regular expression of RE2, got {pattern[:100]!r}: {error}"
            raise Refusal(Code.INVALID_ARGUMENT, message) from None
        except MissingRe2 as missing:
            message = f"regex=true needs {missing}. Without it, search for a literal text"
            raise Refusal(Code.FAILED_PRECONDITION, message) from None
        self._joined: Any = None if _NOT_JOINED.search(pattern) else joined
        self._batch_bytes = _BATCH_BYTES[0]

    @property
    def clauses(self) -> tuple[tuple[bytes, ...], ...]:
        """Return none: the bytes of a match are not known."""
        return ()

    def candidates(self, piece: bytes) -> Iterator[tuple[int, bytes] | None]:
        """Yield the lines with a match; None after every batch of lines."""
        ends = [0, *accumulate(len(line) + 1 for line in piece.split(_NEWLINE)[:-1])]
        texts = [encode_text(text[:EXPRESSION_TEXT_MAX]) for text in texts_of(piece)]
        first = 0
        while first < len(texts):
            batch = self._take_batch(texts, first)
            begin_s = time.monotonic()
            for index in self._search(batch):
                start, end = ends[first + index : first + index + 2]
                yield start, piece[start:end]
            self._adapt(time.monotonic() - begin_s)
            first += len(batch)
            yield None

    def _take_batch(self, texts: Sequence[bytes], first: int) -> Sequence[bytes]:
        size, end = 0, first
        while end < len(texts) and (end == first or size < self._batch_bytes):
            size += len(texts[end])
            end += 1
        return texts[first:end]

    def _adapt(self, took_s: float) -> None:
        smallest, largest = _BATCH_BYTES
        if took_s < _BATCH_S[0]:
            self._batch_bytes = min(2 * self._batch_bytes, largest)
        elif took_s > _BATCH_S[1]:
            self._batch_bytes = max(self._batch_bytes // 2, smallest)

    def _search(self, texts: Sequence[bytes]) -> Iterator[int]:
        """Yield the indexes of the texts that may match."""
        if self._joined is None:
            yield from (i for i, text in enumerate(texts) if self._alone.search(text))
            return
        data = _NEWLINE.join(texts)
        starts = accumulate((len(text) + 1 for text in texts), initial=0)
        at = 0
        match = self._joined.search(data, at)
        for index, (start, end) in enumerate(pairwise(starts)):
            if match is None:
                return
            if start <= match.start() < end:
                yield index
                match = self._joined.search(data, end) if end <= len(data) else None

    def columns(self, text: str) -> Columns:
        """Return the matches in a line; fewer if finding them takes long."""
        data = encode_text(text[:EXPRESSION_TEXT_MAX])
        spans: Columns = []
        begin_s = time.monotonic()
        for match in self._alone.finditer(data):
            spans.append(match.span())
            if len(spans) == COLUMNS_MAX or time.monotonic() - begin_s > _BATCH_S[1]:
                break
        if data.isascii():
            return spans
        return [(_length(data[:start]), _length(data[:end])) for start, end in spans]


def make_matcher(text: str, *, is_expression: bool, ignores_case: bool) -> Matcher:
    """Return the matcher of a text.  Raises Refusal for a text that is no expression."""
    kind = ExpressionMatcher if is_expression else LiteralMatcher
    return kind(text, ignores_case=ignores_case)


def utf16_columns(text: str, columns: Columns) -> Columns:
    """Convert columns in characters to columns in UTF-16 code units, as JavaScript counts."""
    if text.isascii() or max(text, default="") <= "\uffff":
        return columns
    return [(_utf16_length(text[:start]), _utf16_length(text[:end])) for start, end in columns]


def texts_of(piece: bytes) -> list[str]:
    """Return the texts of the lines of a piece; empty ones for damaged lines."""
    count = piece.count(_NEWLINE)
    try:
        rows = json.loads("[" + piece[:-1].decode().replace("\n", ",") + "]")
        texts = [row[4] for row in rows]
    except (ValueError, TypeError, LookupError, RecursionError):
        texts = []
    if len(texts) == count and all(type(text) is str for text in texts):
        return texts
    lines = map(decode_line, piece.split(_NEWLINE)[:-1])
    return [line.text if line else "" for line in lines]


def _bytes_in_line(text: str) -> bytes:
    """Return the bytes of a text within the bytes of a line."""
    head, tail = encode(LogLine(0, "", "\0", "", "")).split(b"\\u0000")
    return encode(LogLine(0, "", text, "", "")).removeprefix(head).removesuffix(tail)


def _length(data: bytes) -> int:
    return len(data.decode("utf-8", "replace"))


def _utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
