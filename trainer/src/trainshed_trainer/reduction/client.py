"""A worker's client of the Reduction Server: sends a tensor's parts and receives the sums.

Every rank creates one with the same reducers and epoch, and calls the same all-reduces in the same
order.  The sums are bitwise equal on all ranks, or every rank gets an error.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional, Sequence

from trainshed_trainer.reduction import handshake, probing
from trainshed_trainer.reduction.errors import Culprit, Kind, ReductionError
from trainshed_trainer.reduction.frames import Dtype, Segment
from trainshed_trainer.reduction.joining import Group, connect_to_reducer
from trainshed_trainer.reduction.lanes import TELL_S, Lane, Part
from trainshed_trainer.reduction.links import Address
from trainshed_trainer.reduction.pacing import Goodput
from trainshed_trainer.reduction.shares import Rates, compute_shares, split_elements

Done = Callable[[Optional[ReductionError]], None]


def _drop_line(_: str) -> None:
    """Drop a line of the log."""


class Client:
    """Connections to all reducers of a group."""

    rates = Rates(0.0, ())

    def __init__(self, group: Group, reducers: int) -> None:
        """Use :meth:`connect`."""
        self.group = group
        self.reducers = reducers
        self.shares: list[float] = []
        self._lanes: list[Lane] = []
        self._lock = threading.Lock()
        self._round = 0
        self._goodput = Goodput()
        self._pending: dict[int, Done] = {}
        self._error: ReductionError | None = None
        #: Set when the reducers have received the error.  The caller gets the error only then: a
        #: caller that ends earlier would be reported as lost.
        self._over = threading.Event()

    @classmethod
    def connect(  # noqa: PLR0913 - a group has this many settings
        cls,
        reducers: Sequence[Address],
        *,
        rank: int,
        world: int,
        epoch: int,
        token: bytes,
        timeout: float = 60.0,
        own: Sequence[Address] = (),
        report: Callable[[str], None] = _drop_line,
        join_timeout: float = 60.0,
    ) -> Client:
        """Join the group and measure its links; every rank must do so within ``join_timeout`` s.

        ``reducers`` are the reducers of pool 2; ``own`` are the reducers inside of the workers, by
        rank, if workers reduce too.  ``timeout`` (seconds) is how long a reducer or worker may be
        silent.  Raises :class:`ReductionError`, which names the participant at fault.
        """
        if not reducers and not own:
            raise ReductionError("a group needs a reducer in pool 2 or in every worker, got none")
        timeout = min(timeout, handshake.TIMEOUT_MS[1] / 1000)
        client = cls(Group(rank, world, epoch, token, timeout, join_timeout), len(reducers))
        try:
            client._join([*reducers, *own], report if rank == 0 else _drop_line)
            client.rates = probing.measure_rates(client, workers_reduce=bool(own))
            client.reshare(compute_shares(world, client.rates, workers_reduce=bool(own)))
        except ReductionError as error:
            client._fail(error)
            client.close()
            raise client._error or error from None
        return client

    def allreduce(self, buffer: memoryview, dtype: Dtype, *, average: bool, done: Done) -> None:
        """Sum ``buffer`` over all ranks, in place; call ``done`` once at the end.

        ``buffer`` must be writable, contiguous and of format ``B``, or else ``ValueError`` is
        raised.  The caller must not use the buffer before ``done`` is called, with ``None`` or an
        error; after an error the content of the buffer is undefined.  ``done`` usually runs in
        another thread and must be quick.
        """
        count, rest = divmod(buffer.nbytes, dtype.itemsize)
        if rest:
            raise ValueError(
                f"buffer must hold whole {dtype.name.lower()} elements, got {buffer.nbytes} bytes"
            )
        if buffer.readonly or buffer.format != "B" or not buffer.contiguous:
            raise ValueError("buffer must be writable, contiguous and of format B")
        with self._lock:
            number, error = self._round, self.failed()
            cut = split_elements(count, dtype.itemsize, self.shares, number)
            self._round += 1
            if not error and (cut or self._error):
                self._pending[number] = done
                if not self._error:
                    self._put(number, buffer, dtype, average, cut)
                return
        done(error)

    def reshare(self, shares: Sequence[float]) -> None:
        """Divide later tensors by ``shares``; all ranks must call it after the same all-reduce."""
        with self._lock:
            self.shares = list(shares)
            self._follow_goodput()

    @property
    def goodput(self) -> float:
        """Return the moving average of the bytes of gradients that are reduced per second."""
        return self._goodput.rate

    def failed(self) -> ReductionError | None:
        """Return the error that has ended the group, once the reducers have it."""
        return self._error if self._over.is_set() else None

    def close(self) -> None:
        """Leave the group; all-reduces that have not ended fail."""
        with self._lock:
            oldest_round = min(self._pending, default=None)
            if oldest_round is None and not self._error:
                self._error = ReductionError("this group is closed")
                self._over.set()
        if oldest_round is not None:
            this_worker = Culprit(Kind.WORKER, self.group.rank)
            text = f"{this_worker} has left in round {oldest_round}"
            self._fail(ReductionError(text, blame=this_worker, round_=oldest_round))
        self._over.wait()  # the error must be sent before the GOODBYE, which is the last frame
        for lane in self._lanes:
            lane.leave()
        until = time.monotonic() + 2 * TELL_S
        for lane in self._lanes:
            lane.join_sender(max(0.0, until - time.monotonic()))
        for lane in self._lanes:
            lane.close(max(0.0, until - time.monotonic()))

    def _join(self, addresses: Sequence[Address], note: Callable[[str], None]) -> None:
        """Connect to all reducers, and wait until every worker has connected to each of them."""
        group = self.group
        for index, address in enumerate(addresses):
            connection = connect_to_reducer(address, index, group, self.reducers, self.failed)
            lane = Lane(connection, group.timeout, self._fail, note)
            with self._lock:  # _fail in another thread must wait for the threads of all lanes
                lane.start()
                self._lanes.append(lane)
                error = self._error
            if error:
                lane.notify(error)
        self.shares = [1.0 / len(addresses)] * len(addresses)
        until = time.monotonic() + group.join_timeout
        for lane in self._lanes:
            if not lane.ready.wait(max(0.0, until - time.monotonic())):
                raise ReductionError(
                    f"not every worker has connected to {lane.culprit} within"
                    f" {group.join_timeout:g} s"
                )
        if self._error:
            raise self._error

    def _follow_goodput(self) -> None:
        for lane, share in zip(self._lanes, self.shares):
            lane.pace.follow(self._goodput.rate * share)

    def _put(
        self,
        number: int,
        buffer: memoryview,
        dtype: Dtype,
        average: bool,  # noqa: FBT001 - passed on
        cut: list[tuple[int, int, int]],
    ) -> None:
        started_at, size, nbytes = time.monotonic(), dtype.itemsize, buffer.nbytes
        parts_left = [len(cut)]

        def end_part() -> None:
            with self._lock:
                parts_left[0] -= 1
                if parts_left[0]:
                    return
                done = self._pending.pop(number, None)
                if self._goodput.learn(nbytes, started_at, time.monotonic()):
                    self._follow_goodput()
            if done:
                self._end(done, None)

        for index, start, end in cut:
            segment = Segment(number, end - start, dtype, average)
            self._lanes[index].put(Part(segment, buffer[start * size : end * size], end_part))

    def _fail(self, error: ReductionError) -> None:
        """End the group: send the error to the reducers, and then to the callers.

        When the callers get the error, no thread writes into their memory any more.
        """
        with self._lock:
            if self._error:
                return
            self._error, lanes = error, list(self._lanes)
        for lane in lanes:
            lane.notify(error)
        until = time.monotonic() + TELL_S
        for lane in lanes:
            lane.join_sender(max(0.0, until - time.monotonic()))
        for lane in lanes:
            lane.join_receiver(max(0.0, until - time.monotonic()))
        for lane in lanes:
            lane.release_memory(max(0.0, until - time.monotonic()))
        with self._lock:
            self._over.set()
            pending = list(self._pending.values())
            self._pending.clear()
        for done in pending:
            self._end(done, error)

    def _end(self, done: Done, error: ReductionError | None) -> None:
        """Call ``done``; if it raises, end the group, because its next rounds would hang."""
        try:
            done(error)
        except Exception as fault:  # noqa: BLE001 - the lane's thread must continue to read
            this_worker = Culprit(Kind.WORKER, self.group.rank)
            text = f"{this_worker} failed at the end of a round: {fault!r}"
            self._fail(ReductionError(text, blame=this_worker))
