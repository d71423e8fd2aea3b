"""Measures the links by a few all-reduces of zeros when the group is formed.

The times themselves are averaged by an all-reduce, so that every rank gets the same rates.  The
shares and sizes that are derived from the rates must be the same on every rank.
"""

from __future__ import annotations

import array
import threading
import time
from typing import Callable, Protocol, Sequence

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.joining import Group
from trainshed_trainer.reduction.shares import Rates

#: Bytes of the first probe, which warms the connections up, and of the probe that is timed.
SMALL = 256 << 10
LARGE = 1 << 20
#: A probe that takes fewer seconds is repeated with four times the bytes, up to ``LARGEST``.
MEASURED_S_MIN = 0.05
LARGEST = 16 << 20
#: The number of repetitions of the timed probe.
REPEATS = 2


class ProbedClient(Protocol):
    """The part of a client that the measurement uses."""

    group: Group
    reducers: int

    def reshare(self, shares: Sequence[float]) -> None:
        """Cut all later tensors by ``shares``."""

    def allreduce(
        self,
        buffer: memoryview,
        dtype: Dtype,
        *,
        average: bool,
        done: Callable[[ReductionError | None], None],
    ) -> None:
        """Sum ``buffer`` over all ranks, and call ``done`` at the end."""


def measure_rates(client: ProbedClient, *, workers_reduce: bool) -> Rates:
    """Measure the rate of a worker's link and of each reducer, in bytes a second one way."""
    world, reducers = client.group.world, client.reducers
    if not workers_reduce:
        seconds, nbytes = _time_allreduce(client)
        rate = nbytes / seconds
        return Rates(rate, (rate * world / reducers,) * reducers)
    client.reshare([0.0] * reducers + [1.0 / world] * world)
    seconds, nbytes = _time_allreduce(client)
    worker = nbytes * (1 + (world - 2) / world) / seconds
    rates: list[float] = []
    for index in range(reducers):
        client.reshare([float(place == index) for place in range(reducers + world)])
        seconds, nbytes = _time_allreduce(client)
        rates.append(world * nbytes / seconds)
    return Rates(worker, tuple(rates))


def _time_allreduce(client: ProbedClient) -> tuple[float, int]:
    """Return the seconds and the bytes of an all-reduce.

    The shortest of several times counts, because other load only adds to the time of the link.
    """
    nbytes = LARGE
    _run(client, bytearray(SMALL))
    seconds = _time_once(client, nbytes)
    while seconds < MEASURED_S_MIN and nbytes < LARGEST:
        nbytes *= 4
        seconds = _time_once(client, nbytes)
    return min(seconds, *(_time_once(client, nbytes) for _ in range(REPEATS))), nbytes


def _time_once(client: ProbedClient, nbytes: int) -> float:
    return _average_over_ranks(client, _run(client, bytearray(nbytes)))


def _average_over_ranks(client: ProbedClient, seconds: float) -> float:
    """Return the mean of all ranks' seconds, which is the same on every rank."""
    value = array.array("f", [seconds])
    _run(client, value, average=True)
    return max(float(value[0]), 1e-6)


def _run(
    client: ProbedClient, data: bytearray | array.array[float], *, average: bool = False
) -> float:
    """Reduce ``data``, wait for the sums and return the seconds that it took."""
    over = threading.Event()
    errors: list[ReductionError | None] = []

    def done(error: ReductionError | None) -> None:
        errors.append(error)
        over.set()

    begun = time.monotonic()
    with memoryview(data).cast("B") as view:
        client.allreduce(view, Dtype.FLOAT32, average=average, done=done)
        over.wait()
    if errors[0]:
        raise errors[0]
    return time.monotonic() - begun
