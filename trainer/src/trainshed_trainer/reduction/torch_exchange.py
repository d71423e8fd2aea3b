"""Passes tensors to the client: directly on the CPU, through pinned memory from a device.

The group, the DDP hook and the relay of a host use it.
"""

from __future__ import annotations

from typing import Callable, Optional, Protocol

import torch

from trainshed_trainer.reduction.client import Done
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.frames import Dtype
from trainshed_trainer.reduction.torch_memory import DeviceMemory, memory_of
from trainshed_trainer.reduction.torch_report import Meter
from trainshed_trainer.reduction.torch_staging import (
    STAGING_MAX,
    PinnedPool,
    Staged,
    Submission,
    Submissions,
)
from trainshed_trainer.reduction.torch_work import DTYPES, flat_bytes, size_of, view_of

MemoryOf = Callable[[torch.device], Optional[DeviceMemory]]


class Reducing(Protocol):
    """The interface of a client; see :class:`trainshed_trainer.reduction.client.Client`."""

    def allreduce(self, buffer: memoryview, dtype: Dtype, *, average: bool, done: Done) -> None:
        """Sum ``buffer`` over all ranks, in place."""

    def failed(self) -> ReductionError | None:
        """Return the error after which no tensor is reduced any more; None if there is none."""

    def close(self) -> None:
        """Leave the group."""


class Exchange(Protocol):
    """Sums tensors over all ranks of a group, in place and in the order of calls."""

    def allreduce(self, tensor: torch.Tensor, *, average: bool, done: Done) -> None:
        """Start an all-reduce; call ``done`` once at the end, in the stream that has the sums."""

    def failed(self) -> ReductionError | None:
        """Return the error after which no tensor is reduced any more; None if there is none."""

    def close(self) -> None:
        """Leave the group."""


class Carrier:
    """An exchange in which every rank is a worker of the reducers."""

    def __init__(
        self, client: Reducing, memory: MemoryOf = memory_of, *, staging_max: int = STAGING_MAX
    ) -> None:
        """Pass tensors to ``client``; ``memory`` returns the memory of a device.

        ``staging_max`` limits the pinned memory for a device's tensors, in bytes.
        """
        self._client = client
        self._memory = memory
        self._staging_max = staging_max
        self._pools: dict[torch.device, PinnedPool] = {}
        self._submissions = Submissions()
        #: Counts the all-reduces; None: they are not counted.
        self.meter: Meter | None = None

    def allreduce(self, tensor: torch.Tensor, *, average: bool, done: Done) -> None:
        """Start an all-reduce; see :class:`Exchange`."""
        if self.meter:
            done = self.meter.count_round(size_of(tensor), done)
        dtype, memory = DTYPES[tensor.dtype], self._memory(tensor.device)
        if memory:
            self._through_host(memory, tensor, average=average, done=done)
            return
        view = view_of(flat_bytes(tensor))

        def submit() -> None:
            self._client.allreduce(view, dtype, average=average, done=done)

        self._submissions.put(Submission(None, submit, done))

    def failed(self) -> ReductionError | None:
        """Return the client's error; None if there is none."""
        return self._client.failed()

    def close(self) -> None:
        """Leave the group; all-reduces that have not ended fail."""
        for pool in list(self._pools.values()):
            pool.close()
        self._submissions.close()
        self._client.close()

    def _through_host(
        self, memory: DeviceMemory, tensor: torch.Tensor, *, average: bool, done: Done
    ) -> None:
        pool = self._pools.setdefault(tensor.device, PinnedPool(memory, self._staging_max))
        staged, dtype = Staged(memory, pool, tensor), DTYPES[tensor.dtype]

        def back(error: ReductionError | None) -> None:
            with staged.copy_back(error) as fault:
                done(fault)

        def submit() -> None:
            self._client.allreduce(view_of(staged.host), dtype, average=average, done=back)

        def fail(error: ReductionError) -> None:
            back(error)
            self._client.close()  # the other ranks wait for this round

        self._submissions.put(Submission(staged.fetch, submit, fail))
