"""What a rank does that loses its group: the client itself, without torch."""

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
        """A rank of no group."""
        self.rank = rank
        self.client: Client | None = None
        self.data = bytearray()

    def __call__(self, request: Json) -> Json:
        """Do what the request's ``do`` names."""
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
        """All-reduce the tensor in place; raises what the client reports."""
        assert self.client  # noqa: S101  # `connect` comes first
        wait = Wait()
        self.client.allreduce(memoryview(self.data), Dtype.FLOAT32, average=False, done=wait)
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
