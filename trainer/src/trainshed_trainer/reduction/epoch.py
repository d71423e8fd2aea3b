"""One group of workers at one reducer, from the first connection to the last.

Every worker has a thread that receives and one that sends.  The thread that receives the last piece
of a range sums the range; all sending threads send the results.  Any error ends the whole epoch:
every worker gets the error, and no worker gets a sum that another does not
(docs/sources/reduction.md 5).
"""

from __future__ import annotations

import mmap
import threading
import time
from typing import Any

import numpy as np

from trainshed_trainer.reduction import sums
from trainshed_trainer.reduction.errors import (
    Culprit,
    Kind,
    ReductionError,
    name_culprit,
    reducer_error,
)
from trainshed_trainer.reduction.frames import Frame, parse_error, parse_segment
from trainshed_trainer.reduction.ledger import Ledger, Stretch
from trainshed_trainer.reduction.links import Link, Silence
from trainshed_trainer.reduction.members import TELL_S, HeartbeatNote, WorkerChannel

#: Seconds after which a round that does not progress is reported, and between two reports.
STRAGGLER_S = 10.0


class Epoch:
    """The streams of ``world`` workers and their sums."""

    def __init__(self, number: int, world: int, place: int, ring: int, timeout: float) -> None:
        """Wait for ``world`` workers, whose lists have this reducer at index ``place``.

        The rings are allocated when all workers have connected.
        """
        self.number = number
        self.world = world
        self.place = place
        self.timeout = timeout
        self.error: ReductionError | None = None
        self._lock = threading.Lock()
        self._ledger = Ledger(world, ring)
        self._members: dict[int, WorkerChannel] = {}
        self._rings: Any = None
        self._summing = False
        self._progressed_at = time.monotonic()
        self._reported = self._progressed_at
        self._receiving = 0
        self._no_receivers = threading.Event()
        self._end_reported = False

    def join(self, rank: int, link: Link) -> WorkerChannel:
        """Add a worker.

        Raises :class:`ReductionError` if the epoch has failed, or has a worker of this rank.
        """
        with self._lock:
            if self.error:
                raise self.error
            if rank in self._members:
                raise ReductionError(f"worker {rank} is already connected in this epoch")
            ring = self._ledger.ring
            member = self._members[rank] = WorkerChannel(
                rank, link, self.timeout, ring, self._results
            )
            self._receiving += 1
            self._no_receivers.clear()
            complete = len(self._members) == self.world
        if complete:
            self._begin()
        return member

    def _begin(self) -> None:
        """Allocate the ring buffers, and let all workers send."""
        try:
            rings = _rings(self.world + 1, self._ledger.ring)
        except OSError as error:
            self.fail(reducer_error(f"has no memory for {self.world} workers: {error}"))
            return
        with self._lock:
            self._rings = rings
        for member in self._all():
            member.put(Frame.READY)

    def receive(self, member: WorkerChannel) -> None:
        """Receive a worker's frames until it leaves or the epoch fails."""
        try:
            while self._receive_frame(member):
                pass
        except ReductionError as error:
            self.fail(error)
        except OSError as error:
            self.fail(self._loss_error(member, self._describe_loss(member.broken or error)))
        except ValueError as error:
            self.fail(self._loss_error(member, f"broke the protocol: {error}"))
        except Exception as error:  # noqa: BLE001 - the other workers would wait without end
            self.fail(reducer_error(f"has failed: {error!r}"))
        member.join()
        if self.error:
            member.link.drain(TELL_S)
        member.link.shutdown()
        with self._lock:
            self._receiving -= 1
            if not self._receiving and (self.error or self._ledger.have_all_left()):
                self._rings = None
            if not self._receiving:
                self._no_receivers.set()

    def fail(self, error: ReductionError) -> None:
        """End the epoch: send ``error`` to every worker, once."""
        with self._lock:
            if self.error:
                return
            self.error = error
        for member in self._all():
            member.put(error)
        threading.Thread(target=self._disconnect, daemon=True).start()

    def end(self, error: ReductionError) -> None:
        """End the epoch, and wait until its workers have gone and its memory is free."""
        if not self.is_over():
            self.fail(error)
        if self._members:
            self._no_receivers.wait(3 * TELL_S)

    def claim_end_report(self) -> bool:
        """Return True on the first call only: the end must be reported once."""
        with self._lock:
            first, self._end_reported = not self._end_reported, True
            return first

    def is_complete(self) -> bool:
        """Return whether every worker has connected."""
        with self._lock:
            return len(self._members) == self.world

    def is_over(self) -> bool:
        """Return whether no worker is left, or the group has failed."""
        with self._lock:
            return self.error is not None or self._ledger.have_all_left()

    def describe_stragglers(self) -> str | None:
        """Return a line about the workers that delay the others, at most once every 10 s."""
        now = time.monotonic()
        with self._lock:
            waited = now - self._progressed_at
            if self.error or now - max(self._progressed_at, self._reported) < STRAGGLER_S:
                return None
            text = self._describe_wait()
            self._reported = now if text else self._reported
        return f"{text[0]} has waited {waited:.0f} s for {text[1]}" if text else None

    def _describe_wait(self) -> tuple[str, str] | None:
        """Return what waits (a round or the group) and the workers that it waits for."""
        number = self._ledger.round_under_way()
        if number is not None:
            waiting, late_ranks = f"round {number}", self._ledger.list_slowest_ranks()
        else:
            waiting, late_ranks = "the group", sorted(set(range(self.world)) - set(self._members))
        return (waiting, ", ".join(f"worker {rank}" for rank in late_ranks)) if late_ranks else None

    def say(self, text: str) -> None:
        """Send a line to rank 0 for its log."""
        with self._lock:
            first = self._members.get(0)
        if first:
            first.put(HeartbeatNote(text))

    def _all(self) -> list[WorkerChannel]:
        with self._lock:
            return list(self._members.values())

    def _loss_error(self, member: WorkerChannel, reason: str) -> ReductionError:
        with self._lock:
            number = self._ledger.round_under_way()
        suffix = "" if number is None else f" in round {number}"
        return ReductionError(
            f"worker {member.rank} {reason}{suffix}",
            blame=Culprit(Kind.WORKER, member.rank),
            round_=number,
        )

    def _describe_loss(self, error: OSError) -> str:
        """Describe how a worker was lost."""
        if isinstance(error, Silence):
            return f"has been silent for {self.timeout:g} s"
        return "is lost: its connection was closed"

    def _receive_frame(self, member: WorkerChannel) -> bool:
        """Receive one frame; return whether more may follow."""
        frame, nbytes = member.link.read_head()
        if frame in (Frame.DATA, Frame.SEGMENT) and self._rings is None:
            raise ValueError(f"a {frame.name} frame before all workers have connected")
        if frame is Frame.DATA:
            self._receive_data(member, nbytes)
            return True
        body = member.link.read(nbytes)
        if frame is Frame.SEGMENT:
            with self._lock:
                if self._ledger.round_under_way() is None:
                    self._progressed_at = time.monotonic()
                self._ledger.announce(member.rank, parse_segment(body))
        elif frame is Frame.ERROR:
            raise name_culprit(Culprit(Kind.WORKER, member.rank), parse_error(body))
        elif frame is Frame.GOODBYE:
            with self._lock:
                self._ledger.leave(member.rank)
            member.put(Frame.GOODBYE)
            return False
        elif frame is not Frame.HEARTBEAT:
            raise ValueError(f"an unexpected {frame.name} frame")
        return True

    def _receive_data(self, member: WorkerChannel, nbytes: int) -> None:
        with self._lock:
            offset = self._ledger.next_position(member.rank, nbytes) % self._ledger.ring
        row = memoryview(self._rings[member.rank])
        member.link.fill(row[offset : offset + nbytes])
        beyond = offset + nbytes - self._ledger.ring
        if beyond > 0:
            member.link.fill(row[:beyond])
        self._sum_ready_stretches(member.rank, nbytes)

    def _sum_ready_stretches(self, rank: int, nbytes: int) -> None:
        with self._lock:
            self._ledger.record_arrival(rank, nbytes)
            stretch = None if self._summing or self.error else self._ledger.next_stretch()
            self._summing = self._summing or stretch is not None
        while stretch:
            self._sum(stretch)
            with self._lock:
                self._ledger.record_sum(stretch)
                self._progressed_at = time.monotonic()
                for member in self._members.values():
                    member.put(stretch)
                stretch = self._ledger.next_stretch()
                self._summing = stretch is not None

    def _sum(self, stretch: Stretch) -> None:
        low = stretch.start % self._ledger.ring
        part = slice(low, low + stretch.end - stretch.start)
        rows = [self._rings[rank][part] for rank in range(self.world)]
        segment = stretch.segment
        sums.add(segment.dtype, rows, self._rings[self.world][part], average=segment.average)

    def _results(self, rank: int, start: int, end: int) -> memoryview:
        """Return the results to send to ``rank`` next; the rank may then send as many bytes."""
        with self._lock:
            self._ledger.record_sending(rank, end)
        low = start % self._ledger.ring
        return memoryview(self._rings[self.world])[low : low + end - start]

    def _disconnect(self) -> None:
        """Shut the connections of a failed epoch after its workers had time to get the error.

        The workers usually close first.  If the reducer closes a connection with bytes unread, the
        kernel resets it, and the error that was sent may be lost.
        """
        members, until = self._all(), time.monotonic() + TELL_S
        for member in members:
            member.join(max(0.0, until - time.monotonic()))
        self._no_receivers.wait(TELL_S)
        for member in members:
            member.link.shutdown()


def _rings(count: int, ring: int) -> Any:
    """Allocate ``count`` rows of ``ring`` bytes that go back to the kernel when they are unused.

    The allocator's heap would keep them, for every group and in every thread's arena.
    """
    return np.frombuffer(mmap.mmap(-1, count * ring), np.uint8).reshape(count, ring)
