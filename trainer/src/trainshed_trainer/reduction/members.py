"""What a reducer says to one worker: results, signs of life, and why all has ended.

Whoever cannot send leaves the decision to the thread that receives: a worker that failed has said
why before it closed, and that may lie there unread.
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
    """A heartbeat, with a text for the log or none."""

    text: str


Item = Union[Stretch, Frame, ReductionError, HeartbeatNote]
#: Gives the bytes of results ``[start, end)`` of the stream, which are sent to a rank next.
Results = Callable[[int, int, int], memoryview]


class WorkerChannel:
    """One worker's connection and the thread that sends there what is put."""

    def __init__(self, rank: int, link: Link, timeout: float, ring: int, results: Results) -> None:
        """A worker that has proved itself; ``ring`` is the length of the results', in bytes."""
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
        """Send ``item`` after those before it; nothing follows an error or a GOODBYE."""
        self._outbox.put(item)

    def join(self, seconds: float | None = None) -> None:
        """Wait until the last is sent, or cannot be."""
        self._sender.join(seconds)

    def _send_all(self) -> None:
        rest: list[Any] = []
        try:
            while True:
                item = rest.pop() if rest else self._next()
                if isinstance(item, Stretch):
                    rest = self._send_results(item)
                elif not self._send_word(item):
                    break
        except OSError as error:
            self.broken = error
            self.link.shutdown()
        self.link.finish_sending()

    def _next(self) -> Item:
        """What was put first, or a sign of life where nothing was for long."""
        try:
            return self._outbox.get(timeout=self._timeout / 4)
        except Empty:
            return HeartbeatNote("")

    def _send_word(self, item: Any) -> bool:
        """Send anything but results; whether another may follow."""
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
        """Send a stretch with those after it that can go in the same frame; what was left over."""
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
