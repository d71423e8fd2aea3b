"""Turns the bytes that replicas write into lines of the log.

While the log cannot be written, the supervisor does not read the pipes: they fill up, and the
programs block in their writes.  So no line is lost, and the supervisor needs little memory even if
the log cannot be written for a long time.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from trainshed.engines.processes.lines import LineBuffer
from trainshed.engines.supervise.loop import Loop
from trainshed.engines.supervise.record.flow import LogRateLimit
from trainshed.engines.supervise.record.segments import SegmentWriter
from trainshed.engines.supervise.record.spec import LogRule

if TYPE_CHECKING:
    from trainshed.model.severity import SeverityReader

_READ_BYTES: Final = 1 << 15
_CHARACTER_BYTES_MAX: Final = 4
#: Limit of the reads from a pipe of an ended replica.  They read more than a pipe contains, so no
#: output is lost; they end even if another process keeps writing.
_DRAIN_READS: Final = 64
_RETRY_S: Final = 1.0
#: The pause while the log waits for its reader, for example for a terminal or a pager.
_RETRY_READER_S: Final = 0.05
#: Lines of stderr to remember for the outcome: frameworks write a page after an error.
_LAST_LINES: Final = 48
_LAST_LINE_LENGTH_MAX: Final = 500
#: If at least this number of lines arrives together, try to log all of them with one call.
_MANY: Final = 8


class OutputSource(NamedTuple):
    """The replica and the stream that wrote a line."""

    index: int  # type: ignore[assignment] # tuples have a method of that name
    task_name: str
    trial: str


class _Pipe:
    """One stream of one replica."""

    __slots__ = ("buffer", "reader", "severity", "source", "stream")

    def __init__(self, reader: int, source: OutputSource, stream: str, line_bytes_max: int) -> None:
        self.reader = reader
        self.source = source
        self.stream = stream
        self.buffer = LineBuffer(line_bytes_max)
        self.severity: SeverityReader | None = None


#: The descriptor of a stream without a pipe.
_NO_READER: Final = -1


class StreamInput(NamedTuple):
    """The functions that take the output of a replica on another machine (``Output.inlet``)."""

    feed: Callable[[bytes], object]
    """Takes bytes that the program has written."""
    close: Callable[[], object]
    """Ends the stream and logs an unfinished line."""


class Output:
    """All pipes of an attempt, and the log to which their lines go."""

    def __init__(
        self,
        loop: Loop,
        log: SegmentWriter,
        wrote: Callable[[int], None],
        rule: LogRule = LogRule(),  # noqa: B008 - a constant
    ) -> None:
        """``wrote`` gets the index of each replica that has written output."""
        self._flow = LogRateLimit(rule, loop.now())
        self._loop = loop
        self._log = log
        self._wrote = wrote
        self._pipes: dict[int, _Pipe] = {}
        self._inlets: set[_Pipe] = set()
        self._on_hold: list[Callable[[bool], object]] = []
        self._paused_s: float | None = None
        self.last_lines: dict[str, deque[str]] = {}
        """The last lines of stderr that are not blank, by task name; long ones are cut."""

    @property
    def is_held_back(self) -> bool:
        """Whether the log cannot be written; then only pipes of ended replicas are read."""
        return self._paused_s is not None

    def get_ready(self) -> None:
        """Import the module that the first line needs, because the import takes time."""
        _create_severity_reader()

    def open(self, source: OutputSource, stream: str) -> int:
        """Make a pipe; return the program's end, which the caller closes after the fork."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        pipe = self._pipes[reader] = _Pipe(reader, source, stream, self._line_bytes_max)
        if not self.is_held_back:
            self._loop.on_readable(reader, partial(self._read, pipe))
        return writer

    def inlet(self, source: OutputSource, stream: str) -> StreamInput:
        """Create an input for bytes that come without a pipe.

        The caller must call ``on_hold`` to learn when it must not feed bytes.
        """
        pipe = _Pipe(_NO_READER, source, stream, self._line_bytes_max)
        self._inlets.add(pipe)

        def feed(data: bytes) -> None:
            self._take(pipe, pipe.buffer.feed(data))
            self._wrote(source.index)

        def close() -> None:
            if pipe in self._inlets:
                self._inlets.remove(pipe)
                self._take(pipe, pipe.buffer.finish())

        return StreamInput(feed, close)

    def on_hold(self, callback: Callable[[bool], object]) -> None:
        """Call ``callback(True)`` when the log cannot be written, ``callback(False)`` when it can.

        Between these calls, the caller must not feed bytes to a ``StreamInput``.
        """
        self._on_hold.append(callback)

    @property
    def _line_bytes_max(self) -> int:
        return _CHARACTER_BYTES_MAX * self._log.text_length_max

    def drain(self, index: int) -> None:
        """Read all output of an ended replica, also while the log cannot be written.

        Up to 2 MiB a pipe then wait in memory, so that the outcome does not wait for the log.
        """
        for pipe in list(self._pipes.values()):
            if pipe.source.index == index:
                self._drain_pipe(pipe)

    def _drain_pipe(self, pipe: _Pipe) -> None:
        for _ in range(_DRAIN_READS):
            if not self._read(pipe):
                return
            self.deliver()

    def finish(self) -> bool:
        """Read and write the remaining output, also of pipes that another process holds open.

        From now on, the log may use the disk space that it otherwise leaves free.  Return False if
        the log still cannot be written; the caller then repeats the call.
        """
        self._log.leaves_room = False
        if not self.is_held_back:
            for pipe in list(self._pipes.values()):
                self._drain_pipe(pipe)
        if self.is_held_back:
            return False
        for pipe in list(self._pipes.values()):
            self._close(pipe)
        for text in self._flow.last_sentences():
            self.note(text, "WARNING")
        return self.deliver()

    def _report_dropped(self) -> None:
        for text in self._flow.sentences(self._loop.now()):
            self.note(text, "WARNING")

    def note(self, text: str, severity: str = "INFO") -> None:
        """Write a line of the engine to the log."""
        self._log.note(text, severity)

    def add(self, task_name: str, lines: Iterable[tuple[str, str]]) -> None:
        """Add (text, severity) lines of logging clients; drop them while the log is held back."""
        now_s = self._loop.now()
        for text, severity in () if self.is_held_back else lines:
            if self._flow.takes(text, now_s):
                self._log.line(task_name, text, severity=severity, stream="stdout")
        self._report_dropped()

    def deliver(self) -> bool:
        """Write the gathered lines; if that fails, stop reading the pipes until it works again."""
        if not self.is_held_back and not self._log.flush():
            self._hold_back()
        return not self.is_held_back

    def _read(self, pipe: _Pipe) -> bool:
        """Read once from a pipe; return whether there may be more."""
        try:
            data = os.read(pipe.reader, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(pipe)
            return False
        self._take(pipe, pipe.buffer.feed(data))
        self._wrote(pipe.source.index)
        return True

    def _close(self, pipe: _Pipe) -> None:
        del self._pipes[pipe.reader]
        if not self.is_held_back:
            self._loop.forget(pipe.reader)
        os.close(pipe.reader)
        self._take(pipe, pipe.buffer.finish())

    def _take(self, pipe: _Pipe, lines: list[str]) -> None:
        name, trial = pipe.source.task_name, pipe.source.trial
        reader = pipe.severity = pipe.severity or _create_severity_reader()
        now_s = self._loop.now()
        if pipe.stream == "stderr":
            self._remember(name, lines)
        if len(lines) >= _MANY and self._take_plain(pipe, lines, reader, now_s):
            self._report_dropped()
            return
        for text in lines:
            if self._flow.takes(text, now_s):
                severity = reader.of(text)
                self._log.line(name, text, severity=severity, stream=pipe.stream, trial=trial)
        self._report_dropped()

    def _remember(self, name: str, lines: list[str]) -> None:
        last = self.last_lines.setdefault(name, deque(maxlen=_LAST_LINES))
        new: list[str] = []
        for text in reversed(lines):
            if len(new) == _LAST_LINES:
                break
            if stripped := text.strip():
                new.append(stripped[:_LAST_LINE_LENGTH_MAX])
        last.extend(reversed(new))

    def _take_plain(
        self, pipe: _Pipe, lines: list[str], reader: "SeverityReader", now_s: float
    ) -> bool:
        """Log many lines at once if possible; return whether that was done.

        It is not possible if the lines differ in severity, or if a limit may drop some.
        """
        if max(map(len, lines)) > self._log.text_length_max:
            return False
        texts = "\n".join(lines)
        if not reader.are_plain(texts):
            return False
        length = len(texts if texts.isascii() else texts.encode(errors="surrogateescape"))
        if not self._flow.takes_all(len(lines), length - len(lines) + 1, now_s):
            return False
        name, trial = pipe.source.task_name, pipe.source.trial
        self._log.lines(name, lines, severity="INFO", stream=pipe.stream, trial=trial)
        return True

    def _hold_back(self) -> None:
        self._paused_s = self._loop.now()
        self._report_full_disk()
        for reader in self._pipes:
            self._loop.forget(reader)
        for callback in self._on_hold:
            callback(True)
        self._retry_later()

    def _report_full_disk(self) -> None:
        """Write one last line into the disk space that the log otherwise leaves free."""
        error = self._log.write_error
        if self._log.leaves_room and error and error.errno == errno.ENOSPC:
            self.note(
                f"{error.strerror}: programs block on their output until there is more disk space.",
                "WARNING",
            )
            self._log.leaves_room = False
            self._log.flush()
            self._log.leaves_room = True
            self._log.write_error = error

    def _retry_later(self) -> None:
        waits_for_reader = isinstance(self._log.write_error, BlockingIOError)
        self._loop.after(_RETRY_READER_S if waits_for_reader else _RETRY_S, self._retry)

    def _retry(self) -> None:
        since_s, error = self._paused_s, self._log.write_error
        if since_s is None:
            return
        if not self._log.flush():
            for pipe in (*self._pipes.values(), *self._inlets):
                self._wrote(pipe.source.index)  # a replica that waits for the log makes no progress
            self._retry_later()
            return
        self._paused_s = None
        if error and not isinstance(error, BlockingIOError):
            self.note(
                f"The log could not be written for {self._loop.now() - since_s:.0f} s "
                f"({error.strerror}); programs blocked on their output, and no line is lost.",
                "WARNING",
            )
        for pipe in self._pipes.values():
            self._loop.on_readable(pipe.reader, partial(self._read, pipe))
        for callback in self._on_hold:
            callback(False)
        self.deliver()


def _create_severity_reader() -> "SeverityReader":
    """Import the module after the start of the replicas: it compiles patterns for a long time."""
    from trainshed.model.severity import SeverityReader  # noqa: PLC0415 - see above

    return SeverityReader()
