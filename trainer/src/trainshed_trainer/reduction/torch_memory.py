"""How the memory of a device that sockets cannot read is reached.

What is CUDA's own stands behind a protocol, so that the same path runs on a CPU in tests.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, Iterator, Protocol, cast

import torch


class Mark(Protocol):
    """A point in a stream's order; ``torch.cuda.Event`` is one."""

    def synchronize(self) -> None:
        """Wait, on the host, until the device has come here."""

    def query(self) -> bool:
        """Whether the device has come here."""

    def wait(self) -> None:
        """Let the current stream wait for it; the host goes on."""


class DeviceMemory(Protocol):
    """A device whose memory sockets cannot read."""

    def inward(self) -> ContextManager[Any]:
        """Make the stream of copies to the host the current one."""

    def outward(self) -> ContextManager[Any]:
        """Make the stream of copies to the device the current one."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy on the current stream; the host goes on."""

    def mark(self) -> Mark:
        """Mark the current stream's order here."""

    def keep(self, tensor: torch.Tensor) -> None:
        """Keep a tensor's memory from being given away before the current stream has come here."""

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Bytes on the host that the device copies to by itself; for a power of two."""

    def trim(self) -> None:
        """Give the system what nobody holds any more of the host's bytes."""


class CudaMemory:
    """A CUDA device; two streams, pinned memory."""

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
        """An event, recorded on the current stream; who waits for it sleeps, and burns no core."""
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return cast("Mark", event)

    def keep(self, tensor: torch.Tensor) -> None:
        """Tell the allocator that the current stream uses it too."""
        tensor.record_stream(torch.cuda.current_stream(self._device))

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Pinned memory; torch rounds up to a power of two."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def trim(self) -> None:
        """Unpin what torch would keep for ever; before torch 2.5 it cannot."""
        unpin: Callable[[], None] | None = getattr(
            getattr(torch, "accelerator", None), "empty_host_cache", None
        ) or getattr(torch._C, "_host_emptyCache", None)  # noqa: SLF001 - its name before
        if unpin:
            unpin()

    @contextlib.contextmanager
    def _current(self, stream: Any) -> Iterator[None]:
        """Make a stream and its device current, in threads whose device is another.

        The end of ``torch.cuda.stream`` alone would make a context, half a gigabyte, on GPU 0.
        """
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            yield


#: How memory is reached, by the type of its device; what is not here is the host's own.
MEMORIES: dict[str, Callable[[torch.device], DeviceMemory]] = {"cuda": CudaMemory}


@functools.lru_cache(maxsize=None)
def memory_of(device: torch.device) -> DeviceMemory | None:
    """How a device's memory is reached; ``None`` for the host's own."""
    reached = MEMORIES.get(device.type)
    return reached(device) if reached else None
