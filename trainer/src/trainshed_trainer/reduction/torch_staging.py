"""The way of a device's tensor to the host and back, while the device goes on computing.

Copies run on streams of their own, into pinned memory that is used again: one stream inwards and
one outwards, since a copy back must never wait behind a copy that waits for what it releases.
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

#: The least pinned memory at once, in bytes, so that buckets of like sizes share it.
GRAIN = 1 << 20
#: Pinned memory of a device at most, in bytes: sixteen of DDP's usual buckets, of 25 MB.
STAGING_MAX = 512 << 20


def staging_max(environ: Mapping[str, str]) -> int:
    """Bytes of pinned memory at most; :class:`ReductionError` for a setting that is no size."""
    name = contract.TRAINSHED_REDUCTION_MAX_STAGING
    try:
        return bytes_of(environ[name]) if environ.get(name) else STAGING_MAX
    except ValueError as error:
        raise ReductionError(f"{name} {error}") from None


class PinnedPool:
    """Host memory for copies, in powers of two, which is what torch pins.

    It holds ``limit`` bytes at most; a buffer that is larger is alone.  One thread takes, any may
    give.  Whoever takes may wait for a round to end, and so must have no part in ending rounds.
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
        """At least ``nbytes`` bytes that nobody uses; waits for room, until :meth:`close`."""
        size = max(GRAIN, 1 << (nbytes - 1).bit_length())
        while True:
            buffer = self._next(size)
            if buffer is None:
                return self._memory.host_memory(size)
            if buffer.numel() == size:
                return buffer
            gone = buffer.numel()
            del buffer  # nobody else holds it
            self._memory.trim()
            with self._changed:
                self._held -= gone

    def give(self, buffer: torch.Tensor, mark: Mark | None) -> None:
        """Have back what :meth:`take` gave; it is free when the device has come to ``mark``."""
        with self._changed:
            self._free.append((buffer, mark))
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait for room any more: :class:`ReductionError` instead."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self, size: int) -> torch.Tensor | None:
        """A buffer of that size, or one that makes room by going; ``None`` where there is room."""
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
        """The place of a free buffer of that size whose copy back is over.

        One that is not would make the next copy inwards wait for a copy outwards.
        """
        for place, (buffer, mark) in enumerate(self._free):
            if buffer.numel() == size and (mark is None or mark.query()):
                return place
        return None

    def _fits(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit


class Staged:
    """One tensor on its way to the host and back, behind what the device computes now."""

    def __init__(self, memory: DeviceMemory, pool: PinnedPool, tensor: torch.Tensor) -> None:
        """Begin; the current stream is the one that computes it."""
        self._memory = memory
        self._pool = pool
        self._flat = flat_bytes(tensor)
        self._computed = memory.mark()
        self._buffer: torch.Tensor | None = None

    @property
    def host(self) -> torch.Tensor:
        """The bytes on the host, once they have been fetched."""
        assert self._buffer is not None  # noqa: S101 - fetched before
        return self._buffer[: self._flat.numel()]

    def fetch(self) -> None:
        """Copy to the host; returns when the bytes are there."""
        self._buffer = self._pool.take(self._flat.numel())
        with self._memory.inward():
            self._computed.wait()
            self._memory.copy(self.host, self._flat)
            copied = self._memory.mark()
        copied.synchronize()

    @contextlib.contextmanager
    def returned(self, error: ReductionError | None) -> Iterator[ReductionError | None]:
        """Copy back, if there is no ``error``, with the stream of that current; the error, if any.

        Without sums nothing is asked of the device, which may be what has failed.
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
                error = not_copied(fault)
            self._give_back(mark)
            yield error

    def _give_back(self, mark: Mark | None) -> None:
        """Give the bytes back, and hold them no longer: they may have to go."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._pool.give(buffer, mark)


class Submission(NamedTuple):
    """An all-reduce that waits for the client.

    ``prepare`` returns when its bytes are there; ``None`` where they are the caller's own.
    """

    prepare: Callable[[], None] | None
    submit: Callable[[], None]
    fail: Callable[[ReductionError], None]


class Submissions:
    """Hands all-reduces to the client in the order of calls, each when its bytes are there.

    As long as no tensor came from a device that is at once, in the caller's thread.  Else a thread
    of their own prepares them: callers may be those who end rounds, and never wait for room here.
    """

    def __init__(self) -> None:
        """Begin with no thread."""
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def put(self, submission: Submission) -> None:
        """Prepare and submit after all that came before; ``fail`` instead, where that fails."""
        if self._queued(submission):
            return
        if submission.prepare:
            submission.fail(ReductionError("this group is closed"))
        else:
            submission.submit()

    def close(self) -> None:
        """Submit what was put, and end the thread."""
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


def not_copied(fault: RuntimeError) -> ReductionError:
    """What a device says that failed, as the caller gets it."""
    if isinstance(fault, ReductionError):
        return fault
    return ReductionError(f"a tensor could not be copied: {fault}")


def _failure(submission: Submission) -> ReductionError | None:
    """Prepare it; why that failed, if it did."""
    try:
        if submission.prepare:
            submission.prepare()
    except RuntimeError as fault:
        return not_copied(fault)
    return None
