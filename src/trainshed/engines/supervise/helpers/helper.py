"""Runs programs for the supervisor beside the replicas, and those that clean up after the last."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from trainshed.engines.processes.lines import LineBuffer
from trainshed.engines.supervise.kernel.spawn import ProcessSpec, Wiring, fork_exec, read_fault
from trainshed.engines.supervise.loop import Children, Death, Loop, Timer
from trainshed.engines.supervise.record.spec import AttemptSpec

_READ_BYTES: Final = 1 << 16
_LINE_BYTES_MAX: Final = 1 << 15
_DRAIN_READS: Final = 64
_NOT_STARTED: Final = 127


class Helper:
    """One run of a program; its lines are reported as they come, then its end, once."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        *,
        heard: Callable[[str, str], object],
        ended: Callable[[int], object],
        descriptors: tuple[int, int],
    ) -> None:
        """``heard`` gets each line and its stream, ``ended`` the status (a signal negated)."""
        self._loop = loop
        self._children = children
        self._heard = heard
        self._tell_end = ended
        self._descriptors = descriptors
        self._readers: dict[int, tuple[str, LineBuffer]] = {}
        self._errors = b""
        self._limit: Timer | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """Its process; 0 before the start and after the end."""
        return self._pid

    def start(  # noqa: PLR0913 - what it is started with
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        limit_s: float | None = None,
        channel: int | None = None,
        enter: Callable[[], object] = lambda: None,
    ) -> None:
        """Start it; after ``limit_s`` seconds it is killed.  ``channel`` becomes descriptor 3.

        ``enter`` is called in the child, before anything of it runs.
        """
        ends: list[int] = []
        try:
            ends.extend(map(self._pipe, ("stdout", "stderr", "errors")))
            wiring = Wiring(ends[0], ends[1], channel)
            command = ProcessSpec(argv, env, cwd)
            self._pid = fork_exec(
                command, wiring, ends[2], descriptors=self._descriptors, enter=enter
            )
        except OSError as error:
            self._heard(f"cannot start {argv[0]}: {error.strerror}", "stderr")
            self._loop.after(0.0, partial(self._finish, _NOT_STARTED))
            return
        finally:
            for descriptor in ends:
                os.close(descriptor)
        self._children.expect(self._pid, self._ended)
        if limit_s is not None:
            self._limit = self._loop.after(limit_s, self.kill)

    def terminate(self) -> None:
        """Ask it, and what it has started, to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and what it has started."""
        self._send(signal.SIGKILL)

    def _send(self, signum: signal.Signals) -> None:
        if self._pid:
            try:
                os.killpg(self._pid, signum)
            except OSError:  # it has only just been forked, and leads no group yet
                with suppress(OSError):
                    os.kill(self._pid, signum)

    def _pipe(self, stream: str) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._readers[reader] = (stream, LineBuffer(_LINE_BYTES_MAX))
        self._loop.on_readable(reader, partial(self._read, reader))
        return writer

    def _read(self, reader: int) -> bool:
        """Whether there may be more."""
        stream, buffer = self._readers[reader]
        try:
            data = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return False
        if stream == "errors":
            self._errors += data
        else:
            for line in buffer.feed(data) if data else buffer.finish():
                self._heard(line, stream)
        if not data:
            self._close(reader)
        return bool(data)

    def _close(self, reader: int) -> None:
        del self._readers[reader]
        self._loop.forget(reader)
        os.close(reader)

    def _ended(self, death: Death) -> None:
        self._pid = 0
        for reader in list(self._readers):
            reads = _DRAIN_READS
            while reads and self._read(reader):
                reads -= 1
        if self._errors:
            self._heard(read_fault(self._errors).reason, "stderr")
        self._finish(death.status)

    def _finish(self, status: int) -> None:
        if self._limit is not None:
            self._limit.cancel()
        for reader, (stream, buffer) in list(self._readers.items()):
            for line in buffer.finish() if stream != "errors" else ():
                self._heard(line, stream)
            self._close(reader)
        self._tell_end(status)


#: Removing a container takes seconds; waiting for devices limits itself.
_CLEANUP_S_MAX: Final = 60.0
_AFTER_S_MAX: Final = 300.0


class Cleanup:
    """The programs that are run after the last process: first all that clean up, then one more."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        cwd: str,
        note: Callable[[str, str], object],
        descriptors: tuple[int, int],
    ) -> None:
        """Nothing is run yet; ``note`` gets a sentence and its severity."""
        self._loop = loop
        self._children = children
        self._cwd = cwd
        self._note = note
        self._descriptors = descriptors
        self._running = 0
        self._steps: list[Callable[[], object]] | None = None

    def advance(self, spec: AttemptSpec) -> bool:
        """Run what is to be run; True when all of it has ended.  To be called until then."""
        if self._steps is None:
            self._steps = [lambda: self._clean_up(spec), lambda: self._wait(spec)]
        while not self._running and self._steps:
            self._steps.pop(0)()
        return not self._running

    def _clean_up(self, spec: AttemptSpec) -> None:
        commands = {argv: replica.env for replica in spec.replicas for argv in replica.cleanup}
        for argv, env in commands.items():  # what replicas have in common is run once
            self._run(argv, env, _CLEANUP_S_MAX, lambda *_: None, self._cleaned_up)

    def _wait(self, spec: AttemptSpec) -> None:
        if spec.after is not None:
            env = dict(os.environ)
            self._run(spec.after, env, _AFTER_S_MAX, self._waiting, self._ended)

    def _cleaned_up(self, status: int) -> None:
        if status:
            self._note("Containers of the job may be left: not all could be removed.", "WARNING")
        self._ended(status)

    def _waiting(self, line: str, _stream: str) -> None:
        self._note(line, "INFO")

    def _run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        limit_s: float,
        heard: Callable[[str, str], object],
        ended: Callable[[int], object],
    ) -> None:
        self._running += 1
        helper = Helper(
            self._loop,
            self._children,
            heard=heard,
            ended=ended,
            descriptors=self._descriptors,
        )
        helper.start(argv, env, self._cwd, limit_s=limit_s)

    def _ended(self, _status: int) -> None:
        self._running -= 1
