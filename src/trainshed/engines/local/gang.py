"""The launcher's hold on a set of processes that start together and end together.

``poll`` is the only place that waits: pipes, the supervisor's messages and signals are one
selector in one thread.  Leaving the ``with`` block, however it is left, ends every process.
"""

import errno
import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from trainshed.engines.base import Stream
from trainshed.engines.local.interrupts import Interrupts, held
from trainshed.engines.local.messages import Exited, Finished, Message, decode
from trainshed.engines.local.processes import linux, tree
from trainshed.engines.local.processes.cgroup import make_leaf
from trainshed.engines.local.supervisor import KILL, Command, Outputs, stop_order, supervise
from trainshed.model.faults import EngineFault

_READ_BYTES = 1 << 16
_DRAIN_READS = 32
_SWEEP_S_MAX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Bytes that one process wrote; empty when the stream has ended."""

    index: int
    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Signalled:
    """The launcher was sent a signal; ``Interrupts.take`` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorLost:
    """The supervisor itself was killed; every process has been ended with it."""


Event = Output | Signalled | SupervisorLost | Message


class Gang:
    """Processes that were started all at once; an event loop over what they do."""

    def __init__(
        self, title: str, commands: Sequence[Command], interrupts: Interrupts | None = None
    ) -> None:
        """Fork the supervisor, which starts the commands; ``StartFailed`` comes as an event."""
        linux.prepare_prctl()
        self._children_before = frozenset(tree.children(os.getpid()))
        linux.adopt_orphans(True)
        self._leaf = make_leaf()
        self._selector = selectors.DefaultSelector()
        self._readers: dict[tuple[int, Stream], int] = {}
        self._messages = b""
        self._finished = False
        self._channel, self._pid = self._fork(title, commands)
        self._selector.register(self._channel, selectors.EVENT_READ)
        for (index, stream), reader in self._readers.items():
            self._selector.register(reader, selectors.EVENT_READ, (index, stream))
        if interrupts is not None:
            self._selector.register(interrupts, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        """Own the processes."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill what still runs and wait until nothing does."""
        self.kill()
        while not self._finished:
            self._hear()
        self._close()

    def stop(self, grace_s: float) -> None:
        """Ask every process to end; what has not after ``grace_s`` seconds is killed."""
        self._order(stop_order(grace_s))

    def kill(self) -> None:
        """Kill every process now."""
        self._order(KILL)

    def poll(self, timeout_s: float | None = None) -> list[Event]:
        """Wait for something to happen and say what did, output before exits."""
        events: list[Event] = []
        told = False
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                events += self._read(*key.data, reads=1)
            elif key.fileobj is self._channel:
                told = True
            else:
                events.append(Signalled())
        if told:
            for event in self._hear():
                events += self._last_words(event)
                events.append(event)
        return events

    def _fork(self, title: str, commands: Sequence[Command]) -> tuple[socket.socket, int]:
        """Make the pipes and the supervisor; each side closes the ends that are not its own."""
        ours, theirs = socket.socketpair()
        outputs: list[Outputs] = []
        try:
            for index in range(len(commands)):
                stdout = self._open_pipe(index, "stdout")
                outputs.append(Outputs(stdout, self._open_pipe(index, "stderr")))
            with held():
                pid = os.fork()
                if pid == 0:
                    ours.close()
                    self._close_all_readers()
                    supervise(title, commands, outputs, theirs, self._leaf)
        except OSError as error:
            self._close_all_readers()
            if self._leaf is not None:
                self._leaf.remove()
                self._leaf.release()
            reason = f"cannot start {len(commands)} processes: {error.strerror}"
            raise EngineFault(reason) from error
        finally:
            theirs.close()
            for pair in outputs:
                os.close(pair.stdout)
                os.close(pair.stderr)
        return ours, pid

    def _open_pipe(self, index: int, stream: Stream) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._readers[index, stream] = reader
        return writer

    def _close_all_readers(self) -> None:
        for reader in self._readers.values():
            os.close(reader)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # it has finished, or was killed: _hear finds out which
            self._channel.sendall(order)

    def _hear(self) -> list[Message | SupervisorLost]:
        if self._finished:
            return []
        data = self._channel.recv(_READ_BYTES)
        *lines, self._messages = (self._messages + data).split(b"\n")
        heard: list[Message | SupervisorLost] = [decode(line) for line in lines]
        if not data:
            self._sweep()
            heard.append(SupervisorLost())
        self._finished = any(isinstance(event, Finished | SupervisorLost) for event in heard)
        return heard

    def _last_words(self, event: Event) -> Iterator[Output]:
        """What was written before the end that the event tells of."""
        everybody = isinstance(event, Finished | SupervisorLost)
        for index, stream in list(self._readers):
            if everybody or (isinstance(event, Exited) and event.index == index):
                yield from self._read(index, stream, reads=_DRAIN_READS)

    def _read(self, index: int, stream: Stream, *, reads: int) -> Iterator[Output]:
        reader = self._readers.get((index, stream))
        while reader is not None and reads > 0:
            reads -= 1
            try:
                data = os.read(reader, _READ_BYTES)
            except BlockingIOError:
                return
            yield Output(index=index, stream=stream, data=data)
            if not data:
                self._close_reader(index, stream)
                return

    def _close_reader(self, index: int, stream: Stream) -> None:
        reader = self._readers.pop((index, stream))
        self._selector.unregister(reader)
        os.close(reader)

    def _sweep(self) -> None:
        """End what a killed supervisor has left: adopted orphans, and all in the leaf.

        The channel ends a moment before the kernel hands the orphans over, so its death is awaited
        first; and each orphan that is collected may have handed over others.
        """
        _collected(self._pid, wait=True)
        if self._leaf is not None:
            self._leaf.kill()
        deadline = time.monotonic() + _SWEEP_S_MAX
        while (orphans := self._orphans()) and time.monotonic() < deadline:
            for pid in orphans:
                if not _collected(pid):
                    tree.kill_child(pid)
            time.sleep(0.005)
        if self._leaf is not None:
            self._leaf.remove()

    def _orphans(self) -> frozenset[int]:
        return frozenset(tree.children(os.getpid())) - self._children_before - {self._pid}

    def _close(self) -> None:
        for index, stream in list(self._readers):
            self._close_reader(index, stream)
        self._selector.close()
        self._channel.close()
        _collected(self._pid, wait=True)
        linux.adopt_orphans(False)
        if self._leaf is not None:
            self._leaf.release()


def _collected(pid: int, *, wait: bool = False) -> bool:
    try:
        return os.waitpid(pid, 0 if wait else os.WNOHANG)[0] == pid
    except OSError as error:
        return error.errno == errno.ECHILD
