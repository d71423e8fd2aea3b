"""Reads an attempt's log on, while it is written; a segment that was read to its end is removed."""

import os
from contextlib import suppress
from typing import Final

from trainshed.model.log_line import LogLine, decode, segment_name

_READ_BYTES: Final = 1 << 16
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class LogTail:
    """The place in the log up to which it was read."""

    def __init__(self, folder: str) -> None:
        """Begin with the first line; the folder need not exist."""
        self._folder = folder
        self._number = 0
        self._descriptor = -1
        self._rest = b""

    def read(self) -> list[LogLine]:
        """Some more lines; none where all is read that was written."""
        log_lines: list[LogLine] = []
        while not log_lines and (data := self._data()):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with suppress(ValueError, TypeError):
                    log_lines.append(decode(line))
        return log_lines

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _data(self) -> bytes:
        there_is_another = os.path.exists(self._path(self._number + 1))  # noqa: PTH110 - as below
        data = os.read(self._descriptor, _READ_BYTES) if self._descriptor >= 0 else b""
        if data or not there_is_another:  # nothing is added to a segment once there is another
            return data
        self._go_on()
        return self._data()

    def _go_on(self) -> None:
        self.close()
        with suppress(OSError):
            os.unlink(self._path(self._number))  # noqa: PTH108 - folders of attempts are strings
        self._number += 1
        self._descriptor = os.open(
            self._path(self._number), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        )

    def _path(self, number: int) -> str:
        return f"{self._folder}/{segment_name(number)}"
