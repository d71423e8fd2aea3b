"""Bytes from a pipe become lines of text, without losing any of them.

A lone carriage return ends a line too: progress bars redraw theirs with it, and must be seen.
A line longer than ``LINE_BYTES_MAX`` arrives in pieces, so that a replica that never writes a
newline cannot fill the launcher's memory.  Bytes that are no UTF-8 become U+FFFD.
"""

import re

LINE_BYTES_MAX = 1 << 20

#: A carriage return at the end may be half of a Windows line end: the next byte will tell.  Each
#: alternative begins with a byte of its own, so that all others are passed over fast.
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
        """Take bytes and give the lines that they complete."""
        plain = self._feed_plain(data)
        if plain is not None:
            return plain
        search_from = max(0, len(self._rest) - 1)  # no line ends before the last byte that was kept
        data, start = self._rest + data, 0
        lines: list[str] = []
        for end in _END.finditer(data, search_from):
            line, start = data[start : end.start()], end.end()
            if line or end[0] != b"\r":
                lines += self._pieces(line)
        self._rest = data[start:]
        while len(self._rest) > self._limit:
            piece, self._rest = _cut(self._rest, self._limit)
            lines.append(_text(piece))
        return lines

    def _feed_plain(self, data: bytes) -> list[str] | None:
        """The same where newlines alone end lines and none is too long; None: it is not so.

        No character goes over a newline, so all lines can be decoded together.
        """
        if b"\r" in data or self._rest.endswith(b"\r"):
            return None
        whole, newline, rest = data.rpartition(b"\n")
        if not newline or len(rest) > self._limit:
            return None
        lines = _text(self._rest + whole).split("\n")
        if max(map(len, lines)) * _UTF8_BYTES_MAX > self._limit:
            return None
        self._rest = rest
        return lines

    def finish(self) -> list[str]:
        """Give what is left when the stream ends without a newline."""
        rest, self._rest = self._rest.removesuffix(b"\r"), b""
        return self._pieces(rest) if rest else []

    def _pieces(self, line: bytes) -> list[str]:
        pieces = []
        while len(line) > self._limit:
            piece, line = _cut(line, self._limit)
            pieces.append(_text(piece))
        return [*pieces, _text(line)]


def _cut(line: bytes, limit: int) -> tuple[bytes, bytes]:
    """Cut near ``limit``, but not inside a character."""
    at = limit
    lowest = max(1, limit - _UTF8_BYTES_MAX)
    while at > lowest and line[at] & _CONTINUATION_MASK == _CONTINUATION:
        at -= 1
    return line[:at], line[at:]


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace")
