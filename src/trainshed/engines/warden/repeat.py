"""Repeats the output of a program on a descriptor of its warden, for readers such as kubectl logs.

The warden never waits for this reader, because the launcher gets all output in any case.  If the
reader is slow, the oldest output that waits for it is dropped, and a line says how much.
"""

import os
import select
import time
from collections import deque
from contextlib import suppress
from typing import Final

from trainshed.engines.supervise.loop import Loop

#: Limit of the output that waits for the reader, in bytes.
_WAITING_BYTES_MAX: Final = 1 << 19


class OutputRepeater:
    """A descriptor of this process, and the output that waits for its reader."""

    def __init__(self, loop: Loop, descriptor: int) -> None:
        """Let writes to the descriptor never block, also those of other code of this process."""
        self._loop = loop
        self._descriptor = descriptor
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._dropped_bytes = 0
        self._is_open = True
        try:
            os.set_blocking(descriptor, False)
        except OSError:  # the descriptor is closed
            self._is_open = False

    def repeat(self, data: bytes) -> None:
        """Write data now, or when the reader is ready; drop older data that waits for too long."""
        if not self._is_open:
            return
        self._waiting.append(memoryview(data))
        self._waiting_bytes += len(data)
        # the first part may be written in part already
        while self._waiting_bytes > _WAITING_BYTES_MAX and len(self._waiting) > 1:
            self._drop_second()
        self._write()

    def finish(self, within_s: float) -> None:
        """Write the rest; drop what the reader does not read within some seconds."""
        until_s = time.monotonic() + within_s
        while self._waiting and (remaining_s := until_s - time.monotonic()) > 0:
            select.select([], [self._descriptor], [], remaining_s)
            self._write()

    def _drop_second(self) -> None:
        dropped_bytes = len(self._waiting[1])
        del self._waiting[1]
        self._waiting_bytes -= dropped_bytes
        self._dropped_bytes += dropped_bytes

    def _write(self) -> None:
        try:
            while self._waiting:
                self._write_first()
        except BlockingIOError:
            pass
        except OSError:  # the reader has ended, or the disk of a file is full
            self._close()
            return
        self._loop.watch(self._descriptor, self._write, reads=False, writes=bool(self._waiting))

    def _write_first(self) -> None:
        """Write the first part, or as much of it as the reader takes.  Raises OSError."""
        written_bytes = os.write(self._descriptor, self._waiting[0])
        self._waiting_bytes -= written_bytes
        if written_bytes < len(self._waiting[0]):
            self._waiting[0] = self._waiting[0][written_bytes:]
            return
        self._waiting.popleft()
        if self._dropped_bytes:
            note = _describe_drop(self._dropped_bytes)
            self._dropped_bytes = 0
            self._waiting.appendleft(memoryview(note))
            self._waiting_bytes += len(note)

    def _close(self) -> None:
        self._is_open = False
        self._waiting.clear()
        self._loop.watch(self._descriptor, self._write, reads=False, writes=False)


def write_error(text: str) -> None:
    """Write a line to stderr; drop it if stderr does not block and its reader is slow."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="replace"))


def _describe_drop(count: int) -> bytes:
    return (
        f"\n[{count} bytes are missing here, because they were not read in time; "
        "the log of the job has them]\n"
    ).encode()
