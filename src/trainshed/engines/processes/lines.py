"""Turns the bytes of a pipe into lines of text, without losing any.

A single carriage return ends a line too: progress bars redraw their line with it, and the log must
show them.  A line longer than ``LINE_BYTES_MAX`` is split, so that a replica that never writes a
newline cannot fill the memory of the reader.  Bytes that are not UTF-8 become U+FFFD.
"""

import re

LINE_BYTES_MAX = 1 << 20

#: A line end.  A carriage return as the last byte may be the first byte of a Windows line end; the
#: next byte decides.  Each alternative begins with a fixed byte, which makes the search fast.
_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")

_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80
_UTF8_BYTES_MAX = 4


class LineBuffer:
    """The unfinished line of one stream."""

    __slots__ = ("_limit", "_rest")

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        """Start empty; ``limit`` is in bytes."""
        self._rest = b""
        self._limit = limit

    def feed(self, data: bytes) -> list[str]:
        """Add bytes and return the lines that they complete."""
        plain = self._feed_plain(data)
        if plain is not None:
            return plain
        search_from = max(0, len(self._rest) - 1)  # only its last byte may be part of a line end
        data, start = self._rest + data, 0
        lines: list[str] = []
        for end in _END.finditer(data, search_from):
            line, start = data[start : end.start()], end.end()
            if line or end[0] != b"\r":
                lines += self._split(line)
        self._rest = data[start:]
        while len(self._rest) > self._limit:
            piece, self._rest = _cut(self._rest, self._limit)
            lines.append(_decode(piece))
        return lines

    def _feed_plain(self, data: bytes) -> list[str] | None:
        """Return the same lines as ``feed``, but faster.

        None: the data has a carriage return, or a line may be too long; then ``feed`` must search
        the data.  In UTF-8, no other character contains a newline byte, so all lines can be decoded
        together.
        """
        if b"\r" in data or self._rest.endswith(b"\r"):
            return None
        whole, newline, rest = data.rpartition(b"\n")
        if not newline or len(rest) > self._limit:
            return None
        lines = _decode(self._rest + whole).split("\n")
        if max(map(len, lines)) * _UTF8_BYTES_MAX > self._limit:
            return None
        self._rest = rest
        return lines

    def finish(self) -> list[str]:
        """Return the last, unfinished line at the end of the stream; empty if there is none."""
        rest, self._rest = self._rest.removesuffix(b"\r"), b""
        return self._split(rest) if rest else []

    def _split(self, line: bytes) -> list[str]:
        pieces = []
        while len(line) > self._limit:
            piece, line = _cut(line, self._limit)
            pieces.append(_decode(piece))
        return [*pieces, _decode(line)]


def _cut(line: bytes, limit: int) -> tuple[bytes, bytes]:
    """Split a line in two near ``limit``, but not inside a character."""
    at = limit
    lowest = max(1, limit - _UTF8_BYTES_MAX)
    while at > lowest and line[at] & _CONTINUATION_MASK == _CONTINUATION:
        at -= 1
    return line[:at], line[at:]


def _decode(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
