"""A worker's side of one connection: sends parts and receives their sums into the same memory.

A failure to send does not end the group by itself; the thread that receives decides.  The reducer's
last frame, which names the participant at fault, may not have been read yet.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Callable

from trainshed_trainer.reduction.errors import ReductionError, name_culprit
from trainshed_trainer.reduction.frames import (
    ALIGNMENT,
    Frame,
    Segment,
    aligned,
    error_frame,
    head,
    parse_error,
    segment_frame,
    text_of,
)
from trainshed_trainer.reduction.joining import ReducerConnection
from trainshed_trainer.reduction.links import Silence
from trainshed_trainer.reduction.pacing import SendWindow

#: Seconds that a reducer has to receive an error and to answer it.
TELL_S = 1.0
#: Seconds to wait for another error after a reducer has closed its connection: it may have closed
#: because of another participant's error, which then arrives on other connections, too.
OTHER_ERROR_S = 0.2
#: Seconds that a thread has to end after its connection was shut.
STOP_S = 5.0


class Part:
    """The bytes of one round on this connection; ``view`` is the trainer's memory."""

    __slots__ = ("at", "end", "segment", "start", "view", "when_done")

    def __init__(self, segment: Segment, view: memoryview, when_done: Callable[[], None]) -> None:
        """``view`` holds the segment's bytes; ``when_done`` is called when it holds the sums."""
        self.segment = segment
        self.view = view
        self.when_done = when_done
        self.start = self.end = self.at = 0


class Lane:
    """The two threads, one that sends and one that receives, on one connection to a reducer."""

    def __init__(
        self,
        connection: ReducerConnection,
        timeout: float,
        fail: Callable[[ReductionError], None],
        note: Callable[[str], None],
    ) -> None:
        """``fail`` gets the first error, ``note`` the reducer's texts for the log."""
        self.pace = SendWindow(connection.ring)
        #: Set when every worker has connected to the reducer, or when the group has ended.
        self.ready = threading.Event()
        self._link = connection.link
        self.culprit = connection.culprit
        self._timeout = timeout
        self._fail = fail
        self._note = note
        self._inbox: SimpleQueue[Part | Frame | ReductionError] = SimpleQueue()
        self._awaited: deque[Part] = deque()
        self._changed = threading.Condition()
        self._planned = 0  # position where the last part ends
        self._received = 0
        self._is_writing = False  # whether results are being written into the trainer's memory
        self._ending = False
        self._has_other_error = threading.Event()
        self._broken: OSError | None = None
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._send_all, self._receive)
        ]

    def start(self) -> None:
        """Start the threads; heartbeats are sent at once, parts when the reducer is ready."""
        for thread in self._threads:
            thread.start()

    def put(self, part: Part) -> None:
        """Queue ``part``."""
        part.start = part.at = aligned(self._planned)
        part.end = self._planned = part.start + part.segment.nbytes
        self._inbox.put(part)

    def notify(self, error: ReductionError) -> None:
        """Send the reducer an error of another connection, and nothing after this error."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._inbox.put(error)
        self._has_other_error.set()
        self.ready.set()

    def leave(self) -> None:
        """Queue the GOODBYE frame."""
        self._inbox.put(Frame.GOODBYE)

    def join_sender(self, seconds: float) -> None:
        """Wait until the queue has been sent."""
        if self._threads[0] is not threading.current_thread():
            self._threads[0].join(seconds)

    def join_receiver(self, seconds: float) -> None:
        """Wait until the reducer has sent its error or closed: then it has this worker's error.

        Sending alone is not enough.  When a process ends with a reducer's results unread, or
        receives more of them later, its connection is reset, and unsent data is lost.
        """
        if self._threads[1] is not threading.current_thread():
            self._threads[1].join(seconds)

    def release_memory(self, seconds: float) -> None:
        """Return when no thread writes into the trainer's memory; call it after ``notify``.

        A piece that is being received has ``seconds``; after that the connection is shut.
        """
        with self._changed:
            if self._changed.wait_for(lambda: not self._is_writing, seconds):
                return
        self._link.shutdown()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing, STOP_S)

    def close(self, seconds: float) -> None:
        """End both threads and close the connection; no thread of a lane may call it.

        The reducer has ``seconds`` to close first: if the worker closes a connection with bytes
        unread, the kernel resets it, and the last frames may be lost.
        """
        self._ending = True
        self._threads[1].join(seconds)
        self._link.shutdown()
        for thread in self._threads:
            thread.join(STOP_S)
        self._link.close()

    def _send_all(self) -> None:
        try:
            while self._send_next():
                pass
        except OSError as error:
            self._broken = error
            self._link.shutdown()

    def _send_next(self) -> bool:
        """Send the next queued item, or a heartbeat; return whether more may follow."""
        try:
            item = self._inbox.get(timeout=self._timeout / 4)
        except Empty:
            self._link.send(head(Frame.HEARTBEAT))
            return True
        if isinstance(item, Part):
            self._awaited.append(item)
            return self._send_part(item)
        if isinstance(item, ReductionError):
            self._link.set_timeout(TELL_S)
            self._link.send(error_frame(item))
        else:
            self._ending = True
            self._link.send(head(Frame.GOODBYE))
        self._link.finish_sending()
        return False

    def _send_part(self, part: Part) -> bool:
        """Send a part as far as the credit allows, until it is sent or the group ends."""
        at, front = part.start, segment_frame(part.segment)
        while at < part.end:
            nbytes = min(part.end - at, self.pace.piece)
            if not self._await_credit(at + nbytes, nbytes + ALIGNMENT):
                return True  # the group ends; the error or GOODBYE is in the queue
            view = part.view[at - part.start : at - part.start + nbytes]
            self._link.send(front + head(Frame.DATA, nbytes), view)
            at += nbytes
            front = b""
        return True

    def _await_credit(self, end: int, least: int) -> bool:
        """Wait until bytes up to ``end`` may be sent; return False if the group ends before.

        The credit never blocks when at most ``least`` bytes would be unacknowledged.
        """
        while not self._may_send(end, least) and not self._ending:
            with self._changed:
                moved = self._changed.wait_for(
                    lambda: self._may_send(end, least) or self._ending, self._timeout / 4
                )
            if not moved:
                self._link.send(head(Frame.HEARTBEAT))
        return not self._ending

    def _may_send(self, end: int, least: int) -> bool:
        """Return whether the credit, which may be less than a piece, covers bytes up to ``end``."""
        return end - self._received <= max(self.pace.credit, least)

    def _receive(self) -> None:
        try:
            while True:
                self._receive_frame()
        except ReductionError as error:
            self._fail(error)
        except OSError as error:
            self._fail_as_lost(self._broken or error)
        except ValueError as error:
            self._fail(ReductionError(f"{self.culprit}: {error}", blame=self.culprit))

    def _receive_frame(self) -> None:
        frame, nbytes = self._link.read_head()
        if frame is Frame.DATA:
            self._receive_data(nbytes)
            return
        body = self._link.read(nbytes)
        if frame is Frame.ERROR:
            raise name_culprit(self.culprit, parse_error(body))
        if frame is Frame.READY and not self.ready.is_set():
            self.ready.set()
        elif frame is not Frame.HEARTBEAT and not self._ending:
            raise ValueError(f"an unexpected {frame.name} frame")
        if body:
            self._note(text_of(body))

    def _receive_data(self, nbytes: int) -> None:
        if not self._claim_memory():
            self._link.skip(nbytes)
            return
        received = 0
        try:
            if not self._awaited or nbytes > self._awaited[0].end - self._awaited[0].at:
                raise ValueError("results without a matching segment")
            part = self._awaited[0]
            offset = part.at - part.start
            self._link.fill(part.view[offset : offset + nbytes])
            received = part.at = part.at + nbytes
        finally:
            with self._changed:
                self._is_writing = False
                self._received = received or self._received
                self._changed.notify_all()
        if part.at == part.end:
            self._awaited.popleft()
            part.when_done()

    def _claim_memory(self) -> bool:
        """Claim the trainer's memory for one write; return False if the group is ending."""
        with self._changed:
            self._is_writing = not self._ending
            return self._is_writing

    def _fail_as_lost(self, error: OSError) -> None:
        what = f"has been silent for {self._timeout:g} s"
        if not isinstance(error, Silence):
            what = "is lost: its connection was closed"
            if not self._ending:
                self._has_other_error.wait(OTHER_ERROR_S)
        if self._ending:
            return
        number = self._awaited[0].segment.round if self._awaited else None
        where = "" if number is None else f" in round {number}"
        self._fail(
            ReductionError(f"{self.culprit} {what}{where}", blame=self.culprit, round_=number)
        )
