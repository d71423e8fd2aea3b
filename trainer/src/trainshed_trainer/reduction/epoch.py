"""One group of workers at one reducer, from the first that comes to the last that leaves.

Every worker has a thread that receives and one that sends.  Whoever receives the piece that
completes a range sums it; results go to all senders.  Anything wrong ends the whole epoch: each
worker is told what it was, and none gets a sum that another does not (contracts/reduction.md 5).
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from trainshed_trainer.reduction import sums
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import (
    Frame,
    cut,
    error_frame,
    head,
    parse_error,
    parse_segment,
)
from trainshed_trainer.reduction.ledger import Ledger, Stretch
from trainshed_trainer.reduction.links import Link, Silence

#: Seconds after which a round that stands still is told of, and again.
STRAGGLER_S = 10.0
#: Longest DATA frame of results, in bytes.
RESULT_MAX = 1 << 20
#: Seconds that the other workers may take to be told of an error.
TELL_S = 1.0


class Member:
    """One worker's connection; what is put into ``outbox`` is sent to it."""

    def __init__(self, rank: int, link: Link) -> None:
        """A worker that has proved itself."""
        self.rank = rank
        self.link = link
        self.outbox: SimpleQueue[Stretch | Frame | ReductionError] = SimpleQueue()
        self.sender: threading.Thread | None = None


class Epoch:
    """The streams of ``world`` workers and their sums."""

    def __init__(self, number: int, world: int, ring: int, timeout: float) -> None:
        """Wait for ``world`` workers; memory is taken when all have come."""
        self.number = number
        self.world = world
        self.timeout = timeout
        self.error: ReductionError | None = None
        self._lock = threading.Lock()
        self._ledger = Ledger(world, ring)
        self._members: dict[int, Member] = {}
        self._rings: Any = None
        self._summing = False
        self._moved = time.monotonic()
        self._told = self._moved
        self._receiving = 0
        self._end_told = False

    def join(self, rank: int, link: Link) -> Member:
        """Take in a worker; :class:`ReductionError` if there is no place for it."""
        with self._lock:
            if self.error:
                raise self.error
            if rank in self._members:
                raise ReductionError(f"worker {rank} is here already, in this epoch")
            member = self._members[rank] = Member(rank, link)
            self._receiving += 1
            complete = len(self._members) == self.world
            if complete:
                self._rings = np.empty((self.world + 1, self._ledger.ring), np.uint8)
        member.sender = threading.Thread(target=self._send, args=(member,), daemon=True)
        member.sender.start()
        if complete:
            for each in self._all():
                each.outbox.put(Frame.READY)
        return member

    def receive(self, member: Member) -> None:
        """Take what a worker sends until it leaves or the epoch fails; returns then."""
        try:
            while self._take(member):
                pass
        except ReductionError as error:
            self.fail(error)
        except Silence:
            self.fail(self._lost(member, f"has been silent for {self.timeout:g} s"))
        except OSError:
            self.fail(self._lost(member, "is lost: its connection was closed"))
        except ValueError as error:
            self.fail(self._lost(member, f"broke the protocol: {error}"))
        if member.sender:
            member.sender.join()
        member.link.shutdown()
        with self._lock:
            self._receiving -= 1
            if not self._receiving and (self.error or self._ledger.everyone_left()):
                self._rings = None

    def fail(self, error: ReductionError) -> None:
        """End the epoch: tell every worker of ``error``, once."""
        with self._lock:
            if self.error:
                return
            self.error = error
        members = self._all()
        for member in members:
            member.outbox.put(error)
        threading.Thread(target=_cut_off, args=(members,), daemon=True).start()

    def told(self) -> bool:
        """Whether its end has not been told of; true only once."""
        with self._lock:
            first, self._end_told = not self._end_told, True
            return first

    def join_senders(self) -> None:
        """Wait until every worker was told of the error, or could not be."""
        for member in self._all():
            if member.sender:
                member.sender.join(TELL_S)

    def over(self) -> bool:
        """Whether nobody is left, or it has failed."""
        with self._lock:
            return self.error is not None or self._ledger.everyone_left()

    def waiting_for(self) -> str | None:
        """Whom a round has waited for, at most once every 10 s; nothing while all goes on."""
        now = time.monotonic()
        with self._lock:
            number, late = self._ledger.round_under_way(), self._ledger.behind()
            if number is None or now - max(self._moved, self._told) < STRAGGLER_S or not late:
                return None
            self._told = now
            whom = ", ".join(f"worker {rank}" for rank in late)
            return f"round {number} has waited {now - self._moved:.0f} s for {whom}"

    def say(self, text: str) -> None:
        """Tell rank 0's log."""
        with self._lock:
            first = self._members.get(0)
        if first:
            first.outbox.put(ReductionNote(text))

    def absent(self) -> list[int]:
        """The ranks that have not come."""
        with self._lock:
            return sorted(set(range(self.world)) - set(self._members))

    def _all(self) -> list[Member]:
        with self._lock:
            return list(self._members.values())

    def _lost(self, member: Member, what: str) -> ReductionError:
        with self._lock:
            number = self._ledger.round_under_way()
        where = "" if number is None else f" in round {number}"
        return ReductionError(
            f"worker {member.rank} {what}{where}",
            blame=Culprit(Kind.WORKER, member.rank),
            round_=number,
        )

    def _take(self, member: Member) -> bool:
        """Take one frame; whether another may follow."""
        frame, nbytes = member.link.read_head()
        if frame is Frame.DATA and self._rings is not None:
            self._take_data(member, nbytes)
            return True
        body = member.link.read(nbytes)
        if frame is Frame.SEGMENT and self._rings is not None:
            with self._lock:
                self._moved = self._moved if self._ledger.round_under_way() else time.monotonic()
                self._ledger.announce(member.rank, parse_segment(body))
        elif frame is Frame.ERROR:
            raise parse_error(body)
        elif frame is Frame.GOODBYE:
            with self._lock:
                self._ledger.leave(member.rank)
            member.outbox.put(Frame.GOODBYE)
            return False
        elif frame is not Frame.HEARTBEAT:
            raise ValueError(f"a {frame.name} frame out of place")
        return True

    def _take_data(self, member: Member, nbytes: int) -> None:
        with self._lock:
            place = self._ledger.place_for(member.rank, nbytes) % self._ledger.ring
        row = memoryview(self._rings[member.rank])
        member.link.fill(row[place : place + nbytes])
        beyond = place + nbytes - self._ledger.ring
        if beyond > 0:
            member.link.fill(row[:beyond])
        self._sum_what_is_there(member.rank, nbytes)

    def _sum_what_is_there(self, rank: int, nbytes: int) -> None:
        with self._lock:
            self._ledger.arrived(rank, nbytes)
            stretch = None if self._summing or self.error else self._ledger.ready()
            self._summing = self._summing or stretch is not None
        while stretch:
            self._sum(stretch)
            with self._lock:
                self._ledger.summed(stretch)
                self._moved = time.monotonic()
                for member in self._members.values():
                    member.outbox.put(stretch)
                stretch = self._ledger.ready()
                self._summing = stretch is not None

    def _sum(self, stretch: Stretch) -> None:
        low = stretch.start % self._ledger.ring
        part = slice(low, low + stretch.end - stretch.start)
        rows = [self._rings[rank][part] for rank in range(self.world)]
        segment = stretch.segment
        sums.add(segment.dtype, rows, self._rings[self.world][part], average=segment.average)

    def _send(self, member: Member) -> None:
        """Send what is put into the outbox, and heartbeats, until the end."""
        rest: list[Stretch] = []
        try:
            while True:
                try:
                    item = rest.pop() if rest else member.outbox.get(timeout=self.timeout / 4)
                except Empty:
                    item = ReductionNote("")
                if isinstance(item, Stretch):
                    rest = self._send_results(member, item)
                elif not self._send_word(member, item):
                    break
        except OSError:
            self.fail(self._lost(member, "is lost: nothing can be sent to it"))
        member.link.finish_sending()

    def _send_word(self, member: Member, item: object) -> bool:
        """Send anything but results; whether another may follow."""
        if isinstance(item, ReductionNote):
            text = cut(item.text)
            member.link.send(head(Frame.HEARTBEAT, len(text)) + text)
        elif isinstance(item, ReductionError):
            member.link.set_timeout(TELL_S)
            member.link.send(error_frame(item))
            return False
        elif item is Frame.GOODBYE:
            return False
        else:
            member.link.send(head(Frame.READY))
        return True

    def _send_results(self, member: Member, stretch: Stretch) -> list[Any]:
        """Send a stretch with those after it that can go in the same frame; what was left over."""
        rest: list[Any] = []
        ring = self._ledger.ring
        while not stretch.last and stretch.end % ring and not member.outbox.empty():
            following = member.outbox.get()
            if not isinstance(following, Stretch) or following.end - stretch.start > RESULT_MAX:
                rest = [following]
                break
            stretch = following._replace(start=stretch.start)
        nbytes = stretch.end - stretch.start
        low = stretch.start % ring
        with self._lock:
            self._ledger.sending(member.rank, stretch.end)
        view = memoryview(self._rings[self.world])[low : low + nbytes]
        member.link.send(head(Frame.DATA, nbytes), view)
        return rest


def _cut_off(members: list[Member]) -> None:
    """End the connections of a failed epoch when its workers were told, or could not be in time.

    The workers close first, as a rule: closed from here, with their bytes unread, a connection is
    reset, and the error on its way to them may be lost.
    """
    until = time.monotonic() + TELL_S
    for member in members:
        if member.sender:
            member.sender.join(max(0.0, until - time.monotonic()))
    time.sleep(TELL_S)
    for member in members:
        member.link.shutdown()


class ReductionNote:
    """A heartbeat to be sent, with a text for the log or none."""

    def __init__(self, text: str) -> None:
        """Say ``text``."""
        self.text = text
