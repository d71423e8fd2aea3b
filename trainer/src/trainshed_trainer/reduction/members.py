"""Sends a reducer's frames to one worker: results, heartbeats and errors.

A failure to send does not end the epoch by itself; the thread that receives decides.  A worker that
fails sends its error before it closes the connection, and that error may not have been read yet.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, NamedTuple, Union

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Frame, cut, error_frame, head
from trainshed_trainer.reduction.ledger import Stretch
from trainshed_trainer.reduction.links import Link

#: Longest DATA frame of results, in bytes.
RESULT_MAX = 1 << 20
#: Seconds that a worker may take to receive an error.
TELL_S = 1.0


class HeartbeatNote(NamedTuple):
    """A heartbeat; its text is for the worker's log and may be empty."""

    text: str


Item = Union[Stretch, Frame, ReductionError, HeartbeatNote]
#: Returns the bytes of results ``[start, end)`` of the stream, which are sent to a rank next.
Results = Callable[[int, int, int], memoryview]


class WorkerChannel:
    """One worker's connection and the thread that sends the queued items."""

    def __init__(self, rank: int, link: Link, timeout: float, ring: int, results: Results) -> None:
        """Start the thread; ``ring`` is the length of the ring of results, in bytes."""
        self.rank = rank
        self.link = link
        self.broken: OSError | None = None
        self._timeout = timeout
        self._ring = ring
        self._results = results
        self._outbox: SimpleQueue[Item] = SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def put(self, item: Item) -> None:
        """Queue ``item``; nothing is sent after an error or a GOODBYE."""
        self._outbox.put(item)

    def join(self, seconds: float | None = None) -> None:
        """Wait until the last item is sent or sending has failed."""
        self._sender.join(seconds)

    def _send_all(self) -> None:
        rest: list[Any] = []
        try:
            while True:
                item = rest.pop() if rest else self._next()
                if isinstance(item, Stretch):
                    rest = self._send_results(item)
                elif not self._send_message(item):
                    break
        except OSError as error:
            self.broken = error
            self.link.shutdown()
        self.link.finish_sending()

    def _next(self) -> Item:
        """Return the next queued item, or a heartbeat if the queue stays empty."""
        try:
            return self._outbox.get(timeout=self._timeout / 4)
        except Empty:
            return HeartbeatNote("")

    def _send_message(self, item: Any) -> bool:
        """Send an item other than results; return whether more may follow."""
        if isinstance(item, HeartbeatNote):
            text = cut(item.text)
            self.link.send(head(Frame.HEARTBEAT, len(text)) + text)
        elif isinstance(item, ReductionError):
            self.link.set_timeout(TELL_S)
            self.link.send(error_frame(item))
            return False
        elif item is Frame.GOODBYE:
            return False
        else:
            self.link.send(head(Frame.READY))
        return True

    def _send_results(self, stretch: Stretch) -> list[Any]:
        """Send a stretch and its successors in one frame; return the first that did not fit."""
        rest: list[Any] = []
        while not stretch.last and stretch.end % self._ring and not self._outbox.empty():
            following = self._outbox.get()
            if not isinstance(following, Stretch) or following.end - stretch.start > RESULT_MAX:
                rest = [following]
                break
            stretch = following._replace(start=stretch.start)
        view = self._results(self.rank, stretch.start, stretch.end)
        self.link.send(head(Frame.DATA, view.nbytes), view)
        return rest
