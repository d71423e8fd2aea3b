"""What one rank of `reduction_raw.py` does when it is told to: the client itself, without torch."""

import hashlib
import os
import socket
import threading
import time
from typing import Any

import numpy as np
from reduction_crew import Json

from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.reducer import Reducer

#: An operation that takes longer is given up; the client's own timers are shorter.
DONE_S_MAX = 110.0
#: Values repeat after so many elements; small enough that every sum is exact in any order.
PATTERN = 1000


class RawRank:
    """The state of a rank between requests."""

    def __init__(self, rank: int, address: str) -> None:
        """A rank that listens on ``address``, should it have to sum as well."""
        self.rank = rank
        self.address = address
        self.world = 0
        self.own: Reducer | None = None
        self.client: Client | None = None
        self.data = bytearray()
        self.dtype = Dtype.FLOAT32

    def __call__(self, request: Json) -> Json:
        """Do what the request's ``do`` names."""
        answer: Json = getattr(self, request.pop("do"))(**request)
        return answer

    def host(self, token: str) -> Json:
        """Start a reducer of this worker's own (R < N)."""
        listener = socket.create_server((self.address, 0), backlog=128)
        self.own = Reducer(listener, token.encode(), index=self.rank)
        self.own.start()
        return {"address": [self.address, listener.getsockname()[1]]}

    def connect(self, *, world: int, epoch: int, token: str, timeout: float, **where: Any) -> Json:
        """Form the group; says what was measured while it formed."""
        self.world = world
        begin = time.monotonic()
        self.client = Client.connect(
            [(host, port) for host, port in where["reducers"]],
            rank=self.rank,
            world=world,
            epoch=epoch,
            token=token.encode(),
            timeout=timeout,
            own=[(host, port) for host, port in where["own"]],
        )
        return {"rates": str(self.client.rates), "seconds": time.monotonic() - begin}

    def prepare(self, *, size: int, dtype: str) -> Json:
        """Make a tensor of ``size`` bytes whose sum is known."""
        self.dtype = Dtype[dtype]
        self.data = bytearray(size // 4 * 4)
        if self.dtype is Dtype.FLOAT32:
            np.frombuffer(self.data, np.float32)[:] = _pattern(size // 4) * (self.rank + 1)
        return {}

    def go(self, *, at: float, count: int, parts: int) -> Json:
        """Sum ``count`` times, one after the other, each time in so many tensors at once."""
        time.sleep(max(0.0, at - time.monotonic()))
        cpu_s = time.process_time()
        for _ in range(count):
            self._sum(parts)
        return {"end": time.monotonic(), "cpu_s": time.process_time() - cpu_s}

    def check(self) -> Json:
        """Whether the tensor, summed once since it was made, is right; and its hash."""
        right = True
        if self.dtype is Dtype.FLOAT32:
            factor = self.world * (self.world + 1) // 2
            summed = np.frombuffer(self.data, np.float32)
            right = bool(np.array_equal(summed, _pattern(len(summed)) * factor))
        return {"right": right, "hash": hashlib.sha256(self.data).hexdigest()}

    def until_error(self) -> Json:
        """Sum until an error comes: when, what it says, whom it blames.

        Whole rounds before it must have been right, but in place their values only grow; what a
        torn round leaves is promised to nobody.
        """
        rounds = 0
        while True:
            try:
                self._sum(1)
            except ReductionError as error:
                failure = {"error": str(error), "culprit": error.culprit, "rounds": rounds}
                return {**failure, "end": time.monotonic()}
            rounds += 1

    def leave(self) -> Json:
        """Close the client, and the reducer if there is one."""
        if self.client is not None:
            self.client.close()
        if self.own is not None:
            self.own.close()
        self.client = self.own = None
        return {"pid": os.getpid()}

    def _sum(self, parts: int) -> None:
        """All-reduce the tensor in place; raises what the client reports."""
        assert self.client  # noqa: S101  # `connect` comes first
        whole = memoryview(self.data)
        step = -(-len(whole) // parts // 4) * 4
        slices = [whole[begin : begin + step] for begin in range(0, len(whole), step)]
        waits = [Wait() for _ in slices]
        for piece, wait in zip(slices, waits, strict=True):
            self.client.allreduce(piece, self.dtype, average=False, done=wait)
        for wait in waits:
            wait.result()


class Wait:
    """A callback that can be waited for."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._come = threading.Event()
        self._error: ReductionError | None = None

    def __call__(self, error: ReductionError | None) -> None:
        """The all-reduce is over."""
        self._error = error
        self._come.set()

    def result(self) -> None:
        """Wait; raise what went wrong."""
        if not self._come.wait(DONE_S_MAX):
            raise TimeoutError("an all-reduce neither ended nor failed")
        if self._error is not None:
            raise self._error


def _pattern(elements: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return (np.arange(elements) % PATTERN).astype(np.float32)
