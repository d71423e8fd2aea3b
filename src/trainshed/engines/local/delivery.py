"""From the bytes of each replica to lines in the sink, remembering the last words of each.

A sink that cannot be written to any more (a closed pipe, a closed terminal) must not keep the
launcher from ending the job in good order, so its first error is kept here as ``broken``.
"""

from collections.abc import Callable, Sequence
from functools import partial

from trainshed.engines.base import OutputSink, Stream
from trainshed.engines.local.gang import Output
from trainshed.engines.local.processes.lines import LineBuffer
from trainshed.model.launch_plan import ReplicaPlan


class Delivery:
    """The way of all output of one job."""

    def __init__(
        self,
        replicas: Sequence[ReplicaPlan],
        sink: OutputSink,
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """Deliver the output of these replicas to one sink."""
        self._flush = flush
        self._replicas = replicas
        self._sink = sink
        self._buffers: dict[tuple[int, Stream], LineBuffer] = {}
        self.broken: OSError | None = None
        """What the sink has failed of, if it has; nothing more is delivered then."""
        self.last_words: dict[str, str] = {}
        """By task name: the last line that is not blank on stderr."""

    def take(self, output: Output) -> None:
        """Deliver the lines that these bytes complete; at the stream's end, the rest."""
        buffer = self._buffers.setdefault((output.index, output.stream), LineBuffer())
        lines = buffer.feed(output.data) if output.data else buffer.finish()
        self._deliver(self._replicas[output.index], output.stream, lines)

    def finish(self) -> None:
        """Deliver the unfinished lines of streams whose end was not seen."""
        for (index, stream), buffer in self._buffers.items():
            self._deliver(self._replicas[index], stream, buffer.finish())

    def note(self, text: str) -> None:
        """Say something in the engine's own name."""
        self._attempt(partial(self._sink.note, text))

    def flush(self) -> None:
        """Have everything written that was delivered, where the sink gathers it."""
        self._attempt(self._flush)

    def _deliver(self, replica: ReplicaPlan, stream: Stream, lines: Sequence[str]) -> None:
        for line in lines:
            if stream == "stderr" and line.strip():
                self.last_words[replica.task_name] = line.strip()
            self._attempt(partial(self._sink.line, replica, line, stream))

    def _attempt(self, write: Callable[[], None]) -> None:
        if self.broken is None:
            try:
                write()
            except OSError as error:
                self.broken = error
