"""Reads an attempt's log while the supervisor writes it; removes completely read segments."""

import os
from contextlib import suppress
from typing import Final

from trainshed.model.log_line import LogLine, decode, segment_name

_READ_BYTES: Final = 1 << 16
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class LogTail:
    """A reader of a log that remembers its position."""

    def __init__(self, folder: str) -> None:
        """Start at the first line; the folder need not exist yet."""
        self._folder = folder
        self._number = 0
        self._descriptor = -1
        self._rest = b""

    def read(self) -> list[LogLine]:
        """Return the next lines; an empty list if there are no more lines yet."""
        log_lines: list[LogLine] = []
        while not log_lines and (data := self._read_bytes()):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with suppress(ValueError, TypeError):
                    log_lines.append(decode(line))
        return log_lines

    def close(self) -> None:
        """Close the open segment."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read_bytes(self) -> bytes:
        has_next = os.path.exists(self._path(self._number + 1))  # noqa: PTH110 - as below
        data = os.read(self._descriptor, _READ_BYTES) if self._descriptor >= 0 else b""
        if data or not has_next:  # a segment that has a next one is complete
            return data
        self._open_next()
        return self._read_bytes()

    def _open_next(self) -> None:
        self.close()
        with suppress(OSError):
            os.unlink(self._path(self._number))  # noqa: PTH108 - folders of attempts are strings
        self._number += 1
        self._descriptor = os.open(self._path(self._number), _READING)

    def _path(self, number: int) -> str:
        return f"{self._folder}/{segment_name(number)}"
