"""Passes what a program writes on to its launcher, as it comes.

Where the launcher takes no more, because its log cannot be written, the pipes are left alone: the
program waits in its writes, and no line is lost.
"""

import fcntl
import os
from contextlib import suppress
from functools import partial
from typing import Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.output import OutputSource
from trainshed.engines.warden.protocol import BYTES_MAX, STDERR, STDOUT, Channel

#: F_SETPIPE_SZ of fcntl.h: a pipe that holds more is emptied with fewer calls.
_SET_PIPE_SIZE: Final = 1031
_PIPE_BYTES: Final = 1 << 20
#: Limit of the bytes in memory: the pipes are read again when the launcher has taken them.
_WAITING_BYTES_MAX: Final = 1 << 20
#: More than a pipe holds: what was written before an end is read, what others add is not.
_DRAIN_READS: Final = 64


class Forward:
    """The pipes of one replica, and the connection that they lead to."""

    def __init__(self, loop: Loop, channel: Channel) -> None:
        """Nothing is read yet."""
        self._loop = loop
        self._channel = channel
        self._pipes: dict[int, int] = {}
        self._is_paused = False
        channel.drained = self._go_on

    def open(self, source: OutputSource, stream: str) -> int:
        """Make a pipe; its end for the program, to be closed here once that has it."""
        del source
        reader, writer = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(reader, _SET_PIPE_SIZE, _PIPE_BYTES)
        os.set_blocking(reader, False)
        self._pipes[reader] = STDOUT if stream == "stdout" else STDERR
        self._listen(reader)
        return writer

    def note(self, text: str, severity: str = "INFO") -> None:
        """Say something in the engine's own name."""
        self._channel.say({"is": "note", "text": text, "severity": severity})

    def drain(self) -> None:
        """Pass on what has been written so far, whether the launcher takes it now or later."""
        for reader in list(self._pipes):
            reads = _DRAIN_READS
            while reads and self._read(reader):
                reads -= 1

    def finish(self) -> None:
        """Pass on the rest, also of streams that another process holds open."""
        self.drain()
        for reader in list(self._pipes):
            self._close(reader)

    def _read(self, reader: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(reader, BYTES_MAX)
        except BlockingIOError:
            return False
        if not data:
            self._close(reader)
            return False
        self._channel.send(self._pipes[reader], data)
        if self._channel.waiting > _WAITING_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            for pipe in self._pipes:
                self._listen(pipe)
        return True

    def _go_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            for reader in self._pipes:
                self._listen(reader)

    def _listen(self, reader: int) -> None:
        self._loop.watch(
            reader, partial(self._read, reader), reads=not self._is_paused, writes=False
        )

    def _close(self, reader: int) -> None:
        del self._pipes[reader]
        self._loop.watch(reader, _nothing, reads=False, writes=False)
        os.close(reader)


def _nothing() -> None:
    pass
