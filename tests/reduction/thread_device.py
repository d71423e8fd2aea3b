"""A device of threads: its streams run behind the host as CUDA's do.

No GPU is needed for it.  What is CUDA's own in the backend stands behind a protocol, and this keeps
that protocol too, so that tensors of the CPU take the way of CUDA's.
"""

import contextlib
import queue
import threading
import weakref

import torch

from trainshed_trainer.reduction import torch_memory

PATIENCE_S = 100


class Stream:
    """Does what it is told in order, behind the host."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, action):
        self._queue.put(action)

    def end(self):
        self._queue.put(None)
        self._thread.join(PATIENCE_S)

    def _run(self):
        for action in iter(self._queue.get, None):
            action()


class AtOnce:
    """A stream that is never behind, for what no future of torch waits for."""

    def put(self, action):
        action()

    def end(self):
        """Nothing is left."""


class ThreadMark:
    def __init__(self, device):
        self._device = device
        self._stream = device.current()
        self._reached = threading.Event()
        self._stream.put(self._reached.set)

    def synchronize(self):
        self._device.awaited.append(self._stream)
        assert self._reached.wait(PATIENCE_S)
        self._device.check()

    def query(self):
        return self._reached.is_set()

    def wait(self):
        self._device.current().put(lambda: self._reached.wait(PATIENCE_S))


class ThreadDevice:
    """Memory that is the host's, behind three streams; ``go`` lets its copies begin."""

    def __init__(self, compute=Stream, inward=Stream, outward=Stream):
        self.go = threading.Event()
        self.broken = False
        self.allocated = []
        self.awaited = []
        self.peak = 0
        self._alive = {}
        self.compute, self._inward, self.back = compute(), inward(), outward()
        self._local = threading.local()

    def current(self):
        return getattr(self._local, "stream", self.compute)

    def check(self):
        """As CUDA: whatever is asked of a device that has failed says so."""
        if self.broken:
            raise RuntimeError("an illegal memory access was encountered")

    def inward(self):
        return self._entered(self._inward)

    def outward(self):
        return self._entered(self.back)

    def copy(self, target, source):
        def run():
            assert self.go.wait(PATIENCE_S)
            target.copy_(source)

        self.check()
        self.current().put(run)

    def mark(self):
        self.check()
        return ThreadMark(self)

    def keep(self, tensor):
        assert tensor.dtype is torch.uint8
        assert self.current() is not self.compute

    def host_memory(self, nbytes):
        self.allocated.append(nbytes)
        self._alive[len(self.allocated)] = nbytes
        self.peak = max(self.peak, self.held)
        buffer = torch.empty(nbytes, dtype=torch.uint8)
        weakref.finalize(buffer, self._alive.pop, len(self.allocated))
        return buffer

    @property
    def held(self):
        """Bytes of host memory that somebody holds."""
        return sum(self._alive.values())

    def trim(self):
        """What nobody holds is gone already."""

    def end(self):
        self.go.set()
        for stream in (self.compute, self._inward, self.back):
            stream.end()

    @contextlib.contextmanager
    def _entered(self, stream):
        before, self._local.stream = self.current(), stream
        try:
            yield
        finally:
            self._local.stream = before


@contextlib.contextmanager
def standing_in():
    """Send tensors of the CPU the way of CUDA's; the device that stands for theirs.

    Only copies to the host are behind: futures of torch wait for CUDA's streams and no others.
    """
    device = ThreadDevice(compute=AtOnce, outward=AtOnce)
    device.go.set()
    torch_memory.MEMORIES["cpu"] = lambda _: device
    torch_memory.memory_of.cache_clear()
    try:
        yield device
    finally:
        del torch_memory.MEMORIES["cpu"]
        torch_memory.memory_of.cache_clear()
