"""Copies between the host and the memory of a device that sockets cannot read.

The calls of CUDA are behind a protocol, so that tests can run the same code on a CPU.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, Iterator, Protocol, cast

import torch


class Mark(Protocol):
    """A point in a stream's order; ``torch.cuda.Event`` is one."""

    def synchronize(self) -> None:
        """Wait, on the host, until the device has reached this point."""

    def query(self) -> bool:
        """Return whether the device has reached this point."""

    def wait(self) -> None:
        """Let the current stream wait for this point; the host continues."""


class DeviceMemory(Protocol):
    """A device whose memory sockets cannot read."""

    def inward(self) -> ContextManager[Any]:
        """Make the stream of copies to the host the current one."""

    def outward(self) -> ContextManager[Any]:
        """Make the stream of copies to the device the current one."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy on the current stream; the host continues."""

    def mark(self) -> Mark:
        """Return a mark at the current end of the current stream."""

    def keep(self, tensor: torch.Tensor) -> None:
        """Prevent reuse of a tensor's memory before the current stream has reached this point."""

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Allocate host memory for asynchronous copies; ``nbytes`` is a power of two."""

    def trim(self) -> None:
        """Return unused host memory to the system."""


class CudaMemory:
    """A CUDA device, with a stream for each direction, and pinned host memory."""

    def __init__(self, device: torch.device) -> None:
        """Make the streams on ``device``."""
        self._device = device
        self._inward = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._outward = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def inward(self) -> ContextManager[Any]:
        """Make the stream of copies to the host the current one."""
        return self._current(self._inward)

    def outward(self) -> ContextManager[Any]:
        """Make the stream of copies to the device the current one."""
        return self._current(self._outward)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy to or from pinned memory."""
        target.copy_(source, non_blocking=True)

    def mark(self) -> Mark:
        """Record an event on the current stream; a wait for it sleeps instead of polling."""
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return cast("Mark", event)

    def keep(self, tensor: torch.Tensor) -> None:
        """Make the allocator wait for the current stream before it reuses the tensor's memory."""
        tensor.record_stream(torch.cuda.current_stream(self._device))

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Allocate pinned memory; torch rounds the size up to a power of two."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def trim(self) -> None:
        """Unpin unused memory, which torch keeps otherwise; needs torch 2.5 or later."""
        unpin: Callable[[], None] | None = getattr(
            getattr(torch, "accelerator", None), "empty_host_cache", None
        ) or getattr(torch._C, "_host_emptyCache", None)  # noqa: SLF001 - its name before
        if unpin:
            unpin()

    @contextlib.contextmanager
    def _current(self, stream: Any) -> Iterator[None]:
        """Make a stream and its device current in this thread.

        ``torch.cuda.stream`` alone would create a context of half a gigabyte on GPU 0 at its end.
        """
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            yield


#: The memory class for each device type; types that are missing use the host's memory.
MEMORIES: dict[str, Callable[[torch.device], DeviceMemory]] = {"cuda": CudaMemory}


@functools.lru_cache(maxsize=None)
def memory_of(device: torch.device) -> DeviceMemory | None:
    """Return the memory of a device; ``None`` for the host's memory."""
    make_memory = MEMORIES.get(device.type)
    return make_memory(device) if make_memory else None
