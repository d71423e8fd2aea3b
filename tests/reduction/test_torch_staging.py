"""Tensors of a device reach the reducers through host memory, while the device goes on.

There is no GPU here: a device of threads stands for it, whose streams run behind the host as
CUDA's do, and whose copies are late on purpose.
"""

import contextlib
import queue
import threading
from datetime import timedelta

import pytest
import torch

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.torch_exchange import Carrier
from trainshed_trainer.reduction.torch_work import ReductionWork, can_go

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


class FakeMark:
    def __init__(self, device):
        self._device = device
        self._reached = threading.Event()
        device.current().put(self._reached.set)

    def synchronize(self):
        if self._device.broken:
            raise RuntimeError("an illegal memory access was encountered")
        assert self._reached.wait(PATIENCE_S)

    def query(self):
        return self._reached.is_set()

    def wait(self):
        self._device.current().put(lambda: self._reached.wait(PATIENCE_S))


class FakeDevice:
    """Memory that is the host's, behind three streams; ``go`` lets its copies begin."""

    def __init__(self):
        self.go = threading.Event()
        self.broken = False
        self.allocated = []
        self.compute, self._inward, self._outward = (Stream() for _ in range(3))
        self._local = threading.local()

    def current(self):
        return getattr(self._local, "stream", self.compute)

    def inward(self):
        return self._entered(self._inward)

    def outward(self):
        return self._entered(self._outward)

    def copy(self, target, source):
        def run():
            assert self.go.wait(PATIENCE_S)
            target.copy_(source)

        self.current().put(run)

    def mark(self):
        return FakeMark(self)

    def keep(self, tensor):
        assert tensor.dtype is torch.uint8
        assert self.current() is not self.compute

    def host_memory(self, nbytes):
        self.allocated.append(nbytes)
        return torch.empty(nbytes, dtype=torch.uint8)

    def end(self):
        self.go.set()
        for stream in (self.compute, self._inward, self._outward):
            stream.end()

    @contextlib.contextmanager
    def _entered(self, stream):
        before, self._local.stream = self.current(), stream
        yield
        self._local.stream = before


class Doubling:
    """A client of two ranks with the same tensors; it keeps what came, and answers when told."""

    def __init__(self):
        self.came = queue.SimpleQueue()
        self.error = None
        self.closed = threading.Event()

    def allreduce(self, buffer, dtype, *, average, done):
        assert buffer.format == "B"
        assert not buffer.readonly
        self.came.put((buffer, dtype, average, done))

    def answer(self, error=None):
        """Reduce the next round; its first element."""
        buffer, _, average, done = self.came.get(timeout=PATIENCE_S)
        values = torch.frombuffer(buffer, dtype=torch.float32)
        first = float(values[0])
        if not average and not error:
            values *= 2
        done(error)
        return first

    def failed(self):
        return self.error

    def close(self):
        self.closed.set()


@pytest.fixture
def device():
    fake = FakeDevice()
    yield fake
    fake.end()


@pytest.fixture
def client():
    return Doubling()


@pytest.fixture
def carrier(device, client):
    carrier = Carrier(client, lambda _: device)
    yield carrier
    device.go.set()
    carrier.close()


class Ended:
    """What waits for a round, and for the copy back."""

    def __init__(self, device):
        self._device = device
        self._over = threading.Event()
        self.error = None

    def __call__(self, error):
        self.error, self.mark = error, self._device.mark()
        self._over.set()

    def wait(self):
        assert self._over.wait(PATIENCE_S)
        self.mark.synchronize()

    def is_set(self):
        return self._over.is_set()


def test_nothing_is_submitted_before_its_bytes_are_there(carrier, client, device):
    tensor, ended = torch.full((1000,), 3.0), Ended(device)
    carrier.allreduce(tensor, average=False, done=ended)
    assert client.came.empty()
    device.go.set()
    assert client.answer() == 3.0
    ended.wait()
    assert (tensor == 6.0).all()


def test_rounds_are_submitted_in_the_order_of_calls(carrier, client, device):
    tensors = [torch.full((size,), float(size)) for size in (500_000, 10, 70_000, 1)]
    ends = [Ended(device) for _ in tensors]
    for tensor, ended in zip(tensors, ends, strict=True):
        carrier.allreduce(tensor, average=False, done=ended)
    device.go.set()
    assert [client.answer() for _ in tensors] == [500_000, 10, 70_000, 1]
    for tensor, ended in zip(tensors, ends, strict=True):
        ended.wait()
        assert (tensor == 2.0 * tensor.numel()).all()


def test_the_host_does_not_wait_for_the_device_and_computing_comes_first(carrier, client, device):
    """The gradient is what the device has when it comes to the call, not when the host does."""
    tensor, computed = torch.zeros(1000), threading.Event()

    def compute():
        assert computed.wait(PATIENCE_S)
        tensor.fill_(7.0)

    device.compute.put(compute)
    device.go.set()
    ended = Ended(device)
    carrier.allreduce(tensor, average=True, done=ended)
    assert client.came.empty()
    computed.set()
    assert client.answer() == 7.0
    ended.wait()


def test_a_later_copy_in_does_not_hold_back_an_earlier_copy_out(carrier, client, device):
    """Else two ranks of a host could wait for each other for ever."""
    device.go.set()
    first, ended = torch.ones(1000), Ended(device)
    carrier.allreduce(first, average=False, done=ended)
    never = threading.Event()
    device.compute.put(lambda: never.wait(PATIENCE_S))
    later = Ended(device)
    carrier.allreduce(torch.ones(1000), average=False, done=later)
    client.answer()
    ended.wait()
    assert (first == 2.0).all()
    assert not later.is_set()
    never.set()
    client.answer()
    later.wait()


def test_host_memory_is_used_again_but_never_by_two_at_once(carrier, client, device):
    device.go.set()
    for _ in range(5):
        ended = Ended(device)
        carrier.allreduce(torch.ones(300_000), average=False, done=ended)
        client.answer()
        ended.wait()
    assert device.allocated == [2 << 20]
    both = [Ended(device), Ended(device)]
    for ended in both:
        carrier.allreduce(torch.ones(300_000), average=False, done=ended)
    assert device.allocated == [2 << 20] * 2
    for ended in both:
        client.answer()
        ended.wait()


def test_an_error_leaves_the_tensor_as_it_was_and_is_told(carrier, client, device):
    device.go.set()
    tensor, ended, error = torch.ones(1000), Ended(device), ReductionError("worker 1 is lost")
    carrier.allreduce(tensor, average=False, done=ended)
    client.answer(error)
    ended.wait()
    assert ended.error is error
    assert (tensor == 1.0).all()


def test_a_device_that_breaks_fails_the_round_and_leaves_the_group(carrier, client, device):
    device.go.set()
    device.broken = True
    ended = Ended(device)
    carrier.allreduce(torch.ones(10), average=False, done=ended)
    assert client.closed.wait(PATIENCE_S)
    assert "illegal memory access" in str(ended.error)


def test_on_the_host_a_tensors_own_memory_is_what_is_sent(client):
    carrier, tensor = Carrier(client), torch.full((1000,), 2.0)
    work = ReductionWork([tensor], timeout())
    carrier.allreduce(tensor, average=False, done=work.finish)
    assert not work.is_completed()
    assert client.answer() == 2.0
    assert work.wait()
    assert (tensor == 4.0).all()
    assert work.get_future().wait()[0] is tensor
    carrier.close()


def test_a_work_that_failed_raises_the_error_itself_and_its_future_tells_it():
    error = ReductionError("worker 3 is lost")
    work = ReductionWork([torch.ones(1)], timeout())
    work.finish(error)
    with pytest.raises(ReductionError) as raised:
        work.wait()
    assert raised.value is error
    assert (work.is_completed(), work.is_success(), work.exception()) == (True, False, error)
    with pytest.raises(RuntimeError, match="ReductionError: worker 3 is lost"):
        work.get_future().wait()


def test_a_work_is_waited_for_no_longer_than_its_patience():
    work = ReductionWork([torch.ones(1)], timeout(seconds=0.01))
    with pytest.raises(ReductionError, match="has not ended within"):
        work.wait()
    with pytest.raises(ReductionError, match="has not ended within"):
        work.wait(timeout(seconds=0.02))
    work.finish(None)
    assert work.wait()


@pytest.mark.parametrize(
    ("tensor", "goes"),
    [
        (torch.ones(3), True),
        (torch.ones(3, dtype=torch.bfloat16), True),
        (torch.ones(3, dtype=torch.float16), True),
        (torch.ones(()), True),
        (torch.ones(3, 4)[1:], True),
        (torch.ones(3, dtype=torch.float64), False),
        (torch.ones(3, dtype=torch.int32), False),
        (torch.ones(0), False),
        (torch.ones(3, 4).t(), False),
        (torch.ones(9)[::2], False),
        (torch.ones(3, 3).to_sparse(), False),
        (torch.ones(3, device="meta"), False),
    ],
)
def test_what_reducers_can_sum(tensor, goes):
    assert can_go(tensor) is goes


def timeout(seconds=PATIENCE_S):
    return timedelta(seconds=seconds)
