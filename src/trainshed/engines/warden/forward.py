"""Forwards the output of a program to its launcher at once, and may repeat it.

While the launcher reads nothing, because its log cannot be written, the warden does not read the
pipes: the program blocks in its writes, and no line is lost.
"""

import fcntl
import os
from contextlib import suppress
from functools import partial
from typing import Final

from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.output import OutputSource
from trainshed.engines.warden.protocol import BYTES_MAX, STDERR, STDOUT, Channel
from trainshed.engines.warden.repeat import OutputRepeater

#: F_SETPIPE_SZ of fcntl.h: a larger pipe needs fewer reads.
_SET_PIPE_SIZE: Final = 1031
_PIPE_BYTES: Final = 1 << 20
#: Limit of unsent bytes in memory.  Above it, the pipes are not read until all bytes are sent.
_WAITING_BYTES_MAX: Final = 1 << 20
#: Limit of reads from one pipe by ``drain``.  It is enough for all output of an ended replica, and
#: ``drain`` still ends if another process keeps writing.
_DRAIN_READS: Final = 64


class Forward:
    """The pipes of one replica, and the connection that sends their output to the launcher."""

    def __init__(self, loop: Loop, channel: Channel) -> None:
        self._loop = loop
        self._channel = channel
        self._pipes: dict[int, int] = {}
        self._repeaters: dict[int, OutputRepeater] = {}
        self._is_paused = False
        channel.drained = self._resume

    def repeat(self) -> None:
        """Repeat all output from now on, on stdout and stderr of this process."""
        self._repeaters = {
            STDOUT: OutputRepeater(self._loop, 1), STDERR: OutputRepeater(self._loop, 2)
        }  # fmt: skip

    def finish_repeating(self, within_s: float) -> None:
        """Write the rest of the repeated output that its reader takes within some seconds."""
        for repeater in self._repeaters.values():
            repeater.finish(within_s)

    def open(self, source: OutputSource, stream: str) -> int:
        """Make a pipe; return its writing end, which the caller closes after the fork."""
        del source
        reader, writer = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(reader, _SET_PIPE_SIZE, _PIPE_BYTES)
        os.set_blocking(reader, False)
        self._pipes[reader] = STDOUT if stream == "stdout" else STDERR
        self._update_watch(reader)
        return writer

    def note(self, text: str, severity: str = "INFO") -> None:
        """Send a line of the engine to the launcher, for the job's log."""
        self._channel.say({"is": "note", "text": text, "severity": severity})

    def drain(self) -> None:
        """Forward all output that the pipes contain, even while the launcher reads nothing."""
        for reader in list(self._pipes):
            reads = _DRAIN_READS
            while reads and self._read(reader):
                reads -= 1

    def finish(self) -> None:
        """Forward the remaining output and close all pipes, also if another process writes."""
        self.drain()
        for reader in list(self._pipes):
            self._close(reader)

    def _read(self, reader: int) -> bool:
        """Read once from a pipe; return whether there may be more."""
        try:
            data = os.read(reader, BYTES_MAX)
        except BlockingIOError:
            return False
        if not data:
            self._close(reader)
            return False
        self._channel.send(self._pipes[reader], data)
        if self._repeaters:
            self._repeaters[self._pipes[reader]].repeat(data)
        if self._channel.unsent_bytes > _WAITING_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            for pipe in self._pipes:
                self._update_watch(pipe)
        return True

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            for reader in self._pipes:
                self._update_watch(reader)

    def _update_watch(self, reader: int) -> None:
        self._loop.watch(
            reader, partial(self._read, reader), reads=not self._is_paused, writes=False
        )

    def _close(self, reader: int) -> None:
        del self._pipes[reader]
        self._loop.watch(reader, _do_nothing, reads=False, writes=False)
        os.close(reader)


def _do_nothing() -> None:
    pass
