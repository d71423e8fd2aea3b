"""How fast the links are: a few all-reduces of nothing, when the group is formed.

Every rank sees the same numbers, since the times are averaged by an all-reduce themselves: shares
and sizes that follow from them must be the same everywhere.
"""

from __future__ import annotations

import array
import threading
import time
from typing import TYPE_CHECKING

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.shares import Rates

if TYPE_CHECKING:
    from trainshed_trainer.reduction.client import Client

#: Bytes of the first probe, which warms connections up, and of the one that is timed.
SMALL = 256 << 10
LARGE = 1 << 20
#: A probe that takes less is repeated with four times the bytes, up to the most, in seconds.
MEASURED_S_MIN = 0.05
LARGEST = 16 << 20
#: How often the timed one is repeated.
REPEATS = 2


def measured(client: Client, *, workers_reduce: bool) -> Rates:
    """Rates of a worker's link and of each reducer, in bytes a second of one direction."""
    world, reducers = client.group.world, client.reducers
    if not workers_reduce:
        seconds, nbytes = _timed(client)
        rate = nbytes / seconds
        return Rates(rate, (rate * world / reducers,) * reducers)
    client.reshare([0.0] * reducers + [1.0 / world] * world)
    seconds, nbytes = _timed(client)
    worker = nbytes * (1 + (world - 2) / world) / seconds
    rates: list[float] = []
    for index in range(reducers):
        client.reshare([float(place == index) for place in range(reducers + world)])
        seconds, nbytes = _timed(client)
        rates.append(world * nbytes / seconds)
    return Rates(worker, tuple(rates))


def _timed(client: Client) -> tuple[float, int]:
    """Seconds of an all-reduce, the shortest of some, and its bytes.

    Whatever else machines do only adds to the time that the link takes.
    """
    nbytes = LARGE
    _run(client, bytearray(SMALL))
    seconds = _once(client, nbytes)
    while seconds < MEASURED_S_MIN and nbytes < LARGEST:
        nbytes *= 4
        seconds = _once(client, nbytes)
    return min(seconds, *(_once(client, nbytes) for _ in range(REPEATS))), nbytes


def _once(client: Client, nbytes: int) -> float:
    return _agreed(client, _run(client, bytearray(nbytes)))


def _agreed(client: Client, seconds: float) -> float:
    """The mean of all ranks' seconds, the same on all of them."""
    value = array.array("f", [seconds])
    _run(client, value, average=True)
    return max(float(value[0]), 1e-6)


def _run(client: Client, data: bytearray | array.array[float], *, average: bool = False) -> float:
    """Reduce ``data`` and wait for it; the seconds that it took."""
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
