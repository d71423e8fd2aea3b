"""The way of a CUDA tensor to the host and back, while the device goes on computing.

Copies run on streams of their own, into pinned memory that is used again: one stream inwards and
one outwards, since a copy back must never wait behind a copy that waits for what it releases.
What is CUDA's own stands behind a protocol, so that the same path runs on a CPU in tests.
"""

from __future__ import annotations

import functools
import queue
import threading
from typing import (
    Any,
    Callable,
    ContextManager,
    NamedTuple,
    Protocol,
    cast,
)

import torch

from trainshed_trainer.reduction.errors import ReductionError

#: Pinned memory comes in multiples of this many bytes, so that buckets of like sizes share it.
GRAIN = 1 << 20


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
        """Bytes on the host that the device copies to by itself."""


class CudaMemory:
    """A CUDA device; two streams, pinned memory."""

    def __init__(self, device: torch.device) -> None:
        """Make the streams on ``device``."""
        self._device = device
        self._inward = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._outward = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def inward(self) -> ContextManager[Any]:
        """Make the stream of copies to the host the current one."""
        return cast("ContextManager[Any]", torch.cuda.stream(self._inward))

    def outward(self) -> ContextManager[Any]:
        """Make the stream of copies to the device the current one."""
        return cast("ContextManager[Any]", torch.cuda.stream(self._outward))

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy to or from pinned memory."""
        target.copy_(source, non_blocking=True)

    def mark(self) -> Mark:
        """An event, recorded on the current stream."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return cast("Mark", event)

    def keep(self, tensor: torch.Tensor) -> None:
        """Tell the allocator that the current stream uses it too."""
        tensor.record_stream(torch.cuda.current_stream(self._device))

    def host_memory(self, nbytes: int) -> torch.Tensor:
        """Pinned memory."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)


@functools.lru_cache(maxsize=None)
def memory_of(device: torch.device) -> DeviceMemory | None:
    """How a device's memory is reached; ``None`` for the host's own."""
    return CudaMemory(device) if device.type == "cuda" else None


class PinnedPool:
    """Host memory for copies, kept by size; as much as was ever under way at once."""

    def __init__(self, memory: DeviceMemory) -> None:
        """Take new memory from ``memory``."""
        self._memory = memory
        self._lock = threading.Lock()
        self._free: dict[int, list[tuple[torch.Tensor, Mark]]] = {}

    def take(self, nbytes: int) -> torch.Tensor:
        """At least ``nbytes`` bytes that nobody uses."""
        size = -(-nbytes // GRAIN) * GRAIN
        with self._lock:
            kept = self._free.setdefault(size, [])
            for place, (buffer, mark) in enumerate(kept):
                if mark.query():
                    del kept[place]
                    return buffer
        return self._memory.host_memory(size)

    def give(self, buffer: torch.Tensor, mark: Mark) -> None:
        """Have back what :meth:`take` gave; it is free when the device has come to ``mark``."""
        with self._lock:
            self._free[buffer.numel()].append((buffer, mark))


class Submission(NamedTuple):
    """An all-reduce that waits for the client."""

    ready: Mark | None
    submit: Callable[[], None]
    fail: Callable[[ReductionError], None]


class Submissions:
    """Hands all-reduces to the client in the order of calls, each when its bytes are there.

    As long as no tensor came from a device that is at once, in the caller's thread.
    """

    def __init__(self) -> None:
        """Begin with no thread."""
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, submission: Submission) -> None:
        """Submit when the device has come to ``ready``, and after all that came before.

        ``fail`` is called instead where the device never comes there.
        """
        if submission.ready is None and self._thread is None:
            submission.submit()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(submission)

    def close(self) -> None:
        """Submit what was put, and end the thread."""
        if self._thread:
            self._queue.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join()

    def _run(self) -> None:
        for submission in iter(self._queue.get, None):
            error = _awaited(submission.ready)
            if error:
                submission.fail(error)
            else:
                submission.submit()


def _awaited(ready: Mark | None) -> ReductionError | None:
    """Wait for a copy; why it never ended, if it did not."""
    try:
        if ready:
            ready.synchronize()
    except RuntimeError as error:
        return ReductionError(f"a tensor could not be copied: {error}")
    return None
