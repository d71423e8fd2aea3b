"""Runs helper programs for the supervisor, and the programs that clean up after the replicas."""

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
    """One run of a program; it reports each line of the output, then the exit."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        descriptors: tuple[int, int],
        *,
        on_line: Callable[[str, str], object],
        on_exit: Callable[[int], object],
    ) -> None:
        """``on_line`` gets each line and the name of its stream.

        ``on_exit`` gets the exit status, negative for a signal.  ``descriptors`` is the program's
        limit of open files, as (soft, hard).
        """
        self._loop = loop
        self._children = children
        self._on_line = on_line
        self._on_exit = on_exit
        self._descriptors = descriptors
        self._readers: dict[int, tuple[str, LineBuffer]] = {}
        self._errors = b""
        self._limit: Timer | None = None
        self.pid = 0
        """The pid of the program; 0 before the start and after the end."""

    def start(  # noqa: PLR0913 - the parts of a process
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        limit_s: float | None = None,
        channel: int | None = None,
        enter: Callable[[], object] = lambda: None,
    ) -> None:
        """Start the program; kill it after ``limit_s`` seconds; None: never.

        ``channel`` becomes the descriptor 3 of the program.  The child calls ``enter`` before it
        runs the program.
        """
        ends: list[int] = []
        try:
            ends.extend(map(self._pipe, ("stdout", "stderr", "errors")))
            wiring = Wiring(ends[0], ends[1], channel)
            command = ProcessSpec(argv, env, cwd)
            self.pid = fork_exec(
                command, wiring, ends[2], descriptors=self._descriptors, enter=enter
            )
        except OSError as error:
            self._on_line(f"cannot start {argv[0]}: {error.strerror}", "stderr")
            self._loop.after(0.0, partial(self._finish, _NOT_STARTED))
            return
        finally:
            for descriptor in ends:
                os.close(descriptor)
        self._children.expect(self.pid, self._handle_exit)
        if limit_s is not None:
            self._limit = self._loop.after(limit_s, self.kill)

    def terminate(self) -> None:
        """Send SIGTERM to the program and the processes of its group."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the program and the processes of its group."""
        self._send(signal.SIGKILL)

    def _send(self, signum: signal.Signals) -> None:
        if self.pid:
            try:
                os.killpg(self.pid, signum)
            except OSError:  # the child was forked a moment ago and leads no group yet
                with suppress(OSError):
                    os.kill(self.pid, signum)

    def _pipe(self, stream: str) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._readers[reader] = (stream, LineBuffer(_LINE_BYTES_MAX))
        self._loop.on_readable(reader, partial(self._read, reader))
        return writer

    def _read(self, reader: int) -> bool:
        """Read once from a pipe; return whether there may be more."""
        stream, buffer = self._readers[reader]
        try:
            data = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return False
        if stream == "errors":
            self._errors += data
        else:
            for line in buffer.feed(data) if data else buffer.finish():
                self._on_line(line, stream)
        if not data:
            self._close(reader)
        return bool(data)

    def _close(self, reader: int) -> None:
        del self._readers[reader]
        self._loop.forget(reader)
        os.close(reader)

    def _handle_exit(self, death: Death) -> None:
        self.pid = 0
        for reader in list(self._readers):
            reads = _DRAIN_READS
            while reads and self._read(reader):
                reads -= 1
        if self._errors:
            self._on_line(read_fault(self._errors).reason, "stderr")
        self._finish(death.status)

    def _finish(self, status: int) -> None:
        if self._limit is not None:
            self._limit.cancel()
        for reader, (stream, buffer) in list(self._readers.items()):
            for line in buffer.finish() if stream != "errors" else ():
                self._on_line(line, stream)
            self._close(reader)
        self._on_exit(status)


#: Time limits of a command that removes containers, and of the program ``AttemptSpec.after``.
_CLEANUP_S_MAX: Final = 60.0
_AFTER_S_MAX: Final = 300.0


class Cleanup:
    """Runs the programs that remove containers, then ``after``, when all replicas have ended."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        cwd: str,
        note: Callable[[str, str], object],
        descriptors: tuple[int, int],
    ) -> None:
        """Store the arguments; ``note`` gets a sentence for the job's log and its severity."""
        self._loop = loop
        self._children = children
        self._cwd = cwd
        self._note = note
        self._descriptors = descriptors
        self._running = 0
        self._steps: list[Callable[[], object]] | None = None

    def advance(self, spec: AttemptSpec) -> bool:
        """Start the next programs; return whether all have ended.

        The caller repeats the call until this returns True.
        """
        if self._steps is None:
            self._steps = [lambda: self._clean_up(spec), lambda: self._run_after(spec)]
        while not self._running and self._steps:
            self._steps.pop(0)()
        return not self._running

    def _clean_up(self, spec: AttemptSpec) -> None:
        commands = {argv: replica.env for replica in spec.replicas for argv in replica.cleanup}
        for argv, env in commands.items():  # a command that several replicas share runs once
            self._run(argv, env, _CLEANUP_S_MAX, lambda *_: None, self._finish_clean_up)

    def _run_after(self, spec: AttemptSpec) -> None:
        if spec.after is not None:
            env = dict(os.environ)
            self._run(spec.after, env, _AFTER_S_MAX, self._note_line, self._finish)

    def _finish_clean_up(self, status: int) -> None:
        if status:
            self._note(
                "Cannot remove all containers of the job. List those that remain with docker ps or "
                "podman ps, and remove them.",
                "WARNING",
            )
        self._finish(status)

    def _note_line(self, line: str, _stream: str) -> None:
        self._note(line, "INFO")

    def _run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        limit_s: float,
        on_line: Callable[[str, str], object],
        on_exit: Callable[[int], object],
    ) -> None:
        self._running += 1
        helper = Helper(
            self._loop, self._children, self._descriptors, on_line=on_line, on_exit=on_exit
        )
        helper.start(argv, env, self._cwd, limit_s=limit_s)

    def _finish(self, _status: int) -> None:
        self._running -= 1
