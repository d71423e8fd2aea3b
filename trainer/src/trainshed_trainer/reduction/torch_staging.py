"""Copies a device's tensor to the host and back while the device continues to compute.

Copies use two separate streams, one to the host and one back, and pinned memory that is reused.
With one stream, a copy back could wait behind a copy that needs the memory which it releases.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Callable, Iterator, Mapping, NamedTuple

import torch

from trainshed_trainer import contract
from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_memory import DeviceMemory, Mark
from trainshed_trainer.reduction.torch_work import flat_bytes
from trainshed_trainer.sizes import bytes_of

#: The smallest pinned buffer, in bytes, so that buckets of similar sizes share buffers.
GRAIN = 1 << 20
#: Most pinned memory for a device, in bytes: sixteen of DDP's default buckets of 25 MB.
STAGING_MAX = 512 << 20


def staging_max(environ: Mapping[str, str]) -> int:
    """Read the most bytes of pinned memory; :class:`ReductionError` for a malformed setting."""
    name = contract.TRAINSHED_REDUCTION_MAX_STAGING
    try:
        return bytes_of(environ[name]) if environ.get(name) else STAGING_MAX
    except ValueError as error:
        raise ReductionError(f"{name} {error}") from None


class PinnedPool:
    """Host memory for copies, in powers of two, which is what torch pins.

    It has ``limit`` bytes at most, or a single larger buffer.  Only one thread may call ``take``,
    any thread ``give``.  ``take`` may wait for a round to end, so a thread that ends rounds must
    not call it.
    """

    def __init__(self, memory: DeviceMemory, limit: int = STAGING_MAX) -> None:
        """Take new memory from ``memory``."""
        self._memory = memory
        self._limit = limit
        self._held = 0
        self._free: list[tuple[torch.Tensor, Mark | None]] = []  # the longest unused first
        self._closed = False
        self._changed = threading.Condition()

    def take(self, nbytes: int) -> torch.Tensor:
        """Return an unused buffer of ``nbytes`` or more; wait for space until :meth:`close`."""
        size = max(GRAIN, 1 << (nbytes - 1).bit_length())
        while True:
            buffer = self._next(size)
            if buffer is None:
                return self._memory.host_memory(size)
            if buffer.numel() == size:
                return buffer
            gone = buffer.numel()
            del buffer  # the last reference
            self._memory.trim()
            with self._changed:
                self._held -= gone

    def give(self, buffer: torch.Tensor, mark: Mark | None) -> None:
        """Return a buffer to the pool; it is free when the device has reached ``mark``."""
        with self._changed:
            self._free.append((buffer, mark))
            self._changed.notify_all()

    def close(self) -> None:
        """Make waiting calls of :meth:`take` raise :class:`ReductionError`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self, size: int) -> torch.Tensor | None:
        """Return a buffer of this size or one to free; ``None`` if there is space for a new one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._closed or self._fits(size))
            place = self._ready(size)
            if place is None and self._fits(size):
                self._held += size
                return None
            if not self._free:
                raise ReductionError("this group is closed")
            if place is None:
                sizes = [buffer.numel() for buffer, _ in self._free]
                place = sizes.index(size) if size in sizes else 0
            buffer, mark = self._free.pop(place)
        if mark:
            mark.synchronize()
        return buffer

    def _ready(self, size: int) -> int | None:
        """Return the index of a free buffer of that size whose copy back has ended.

        With another buffer, the next copy to the host would wait until the copy back has ended.
        """
        for place, (buffer, mark) in enumerate(self._free):
            if buffer.numel() == size and (mark is None or mark.query()):
                return place
        return None

    def _fits(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit


class Staged:
    """Copies one tensor to the host and back, after the device's current computations."""

    def __init__(self, memory: DeviceMemory, pool: PinnedPool, tensor: torch.Tensor) -> None:
        """``tensor`` is computed on the current stream."""
        self._memory = memory
        self._pool = pool
        self._flat = flat_bytes(tensor)
        self._computed = memory.mark()
        self._buffer: torch.Tensor | None = None

    @property
    def host(self) -> torch.Tensor:
        """Return the bytes on the host; call :meth:`fetch` first."""
        assert self._buffer is not None  # noqa: S101 - fetched before
        return self._buffer[: self._flat.numel()]

    def fetch(self) -> None:
        """Copy the tensor to the host and wait for the copy."""
        self._buffer = self._pool.take(self._flat.numel())
        with self._memory.inward():
            self._computed.wait()
            self._memory.copy(self.host, self._flat)
            copied = self._memory.mark()
        copied.synchronize()

    @contextlib.contextmanager
    def copy_back(self, error: ReductionError | None) -> Iterator[ReductionError | None]:
        """Copy back unless there is an ``error``, with the copy's stream current; yield any error.

        After an error the device is not used, because it may have failed.
        """
        with contextlib.ExitStack() as current:
            mark = None
            try:
                if not error:
                    current.enter_context(self._memory.outward())
                    self._memory.copy(self._flat, self.host)
                    self._memory.keep(self._flat)
                    mark = self._memory.mark()
            except RuntimeError as fault:
                error = to_copy_error(fault)
            self._give_back(mark)
            yield error

    def _give_back(self, mark: Mark | None) -> None:
        """Return the buffer to the pool and drop the reference, so that the pool can free it."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._pool.give(buffer, mark)


class Submission(NamedTuple):
    """An all-reduce that waits for the client.

    ``prepare`` returns when the bytes are on the host; it is ``None`` if they already are.
    """

    prepare: Callable[[], None] | None
    submit: Callable[[], None]
    fail: Callable[[ReductionError], None]


class Submissions:
    """Submits all-reduces to the client in the order of calls, when their bytes are on the host.

    Without tensors from a device, the caller's thread submits at once.  With the first tensor from
    a device, a separate thread starts to prepare and submit, because the caller's thread may be one
    that ends rounds and must not wait for space.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def put(self, submission: Submission) -> None:
        """Prepare and submit after all earlier submissions; on an error call ``fail`` instead."""
        if self._queued(submission):
            return
        if submission.prepare:
            submission.fail(ReductionError("this group is closed"))
        else:
            submission.submit()

    def close(self) -> None:
        """Submit the rest of the queue, and end the thread."""
        with self._lock:
            self._closed = True
        if self._thread:
            self._queue.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join()

    def _queued(self, submission: Submission) -> bool:
        with self._lock:
            if self._closed or not (submission.prepare or self._thread):
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._queue.put(submission)
            return True

    def _run(self) -> None:
        for submission in iter(self._queue.get, None):
            error = _failure(submission)
            if error:
                submission.fail(error)
            else:
                submission.submit()


def to_copy_error(fault: RuntimeError) -> ReductionError:
    """Convert a device's error for the caller."""
    if isinstance(fault, ReductionError):
        return fault
    return ReductionError(f"cannot copy a tensor: {fault}")


def _failure(submission: Submission) -> ReductionError | None:
    """Prepare a submission; return the error, if any."""
    try:
        if submission.prepare:
            submission.prepare()
    except RuntimeError as fault:
        return to_copy_error(fault)
    return None
