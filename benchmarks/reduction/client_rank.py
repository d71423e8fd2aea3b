"""A rank for benchmarks of lost groups: it uses the reduction client directly, without torch."""

import threading
import time
from typing import Any

import numpy as np

from benchmarks.harness import Json
from trainshed_trainer.reduction.client import Client
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype

#: An operation that takes longer is given up; the client's own timers are shorter.
DONE_S_MAX = 110.0


class ClientRank:
    """The state of a rank between requests."""

    def __init__(self, rank: int) -> None:
        """Make a rank that has not joined a group."""
        self.rank = rank
        self.client: Client | None = None
        self.data = bytearray()

    def __call__(self, request: Json) -> Json:
        """Run the method that the request names in ``do``."""
        answer: Json = getattr(self, request.pop("do"))(**request)
        return answer

    def connect(
        self, *, world: int, epoch: int, token: str, timeout: float, reducers: list[list[Any]]
    ) -> Json:
        """Form the group."""
        self.client = Client.connect(
            [(host, port) for host, port in reducers],
            rank=self.rank,
            world=world,
            epoch=epoch,
            token=token.encode(),
            timeout=timeout,
        )
        return {}

    def prepare(self, *, size: int) -> Json:
        """Make a tensor of ``size`` bytes."""
        self.data = bytearray(np.ones(size // 4, np.float32).tobytes())
        return {}

    def until_error(self) -> Json:
        """Sum until an error comes: when, what it says, whom it blames.

        Whole rounds before it must have been right, but in place their values only grow; what a
        torn round leaves is promised to nobody.
        """
        rounds = 0
        while True:
            try:
                self._sum()
            except ReductionError as error:
                failure = {"error": str(error), "culprit": error.culprit, "rounds": rounds}
                return {**failure, "end": time.monotonic()}
            rounds += 1

    def _sum(self) -> None:
        """All-reduce the tensor in place; raise the error that the client reports."""
        assert self.client  # noqa: S101  # `connect` comes first
        wait = Wait()
        self.client.allreduce(memoryview(self.data), Dtype.FLOAT32, average=False, done=wait)
        wait.result()


class Wait:
    """A callback that can be waited for."""

    def __init__(self) -> None:
        """Start without a result."""
        self._come = threading.Event()
        self._error: ReductionError | None = None

    def __call__(self, error: ReductionError | None) -> None:
        """Store the result, and wake the waiting thread."""
        self._error = error
        self._come.set()

    def result(self) -> None:
        """Wait for the result; raise the error if there is one."""
        if not self._come.wait(DONE_S_MAX):
            raise TimeoutError("an all-reduce neither ended nor failed")
        if self._error is not None:
            raise self._error
